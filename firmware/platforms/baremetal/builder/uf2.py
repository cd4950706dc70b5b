# SPDX-License-Identifier: Apache-2.0
"""UF2, the format of bootloaders that look like a drive (github.com/microsoft/uf2, README.md, "File format")."""

import struct

FIRST_MAGIC, SECOND_MAGIC, LAST_MAGIC = 0x0A324655, 0x9E5D5157, 0x0AB16F30
FAMILY_PRESENT = 0x2000
PAYLOAD_BYTES = 256  # "always correct", and all that Adafruit's bootloader takes
DATA_BYTES = 476


def blocks(binary, address, family):
    """A binary that begins at `address`, in blocks of 512 bytes that may be written in any order.

    The last payload is filled up with 0xFF, as erased flash reads.
    """
    payloads = [binary[at : at + PAYLOAD_BYTES] for at in range(0, len(binary), PAYLOAD_BYTES)]
    return b"".join(
        struct.pack(
            f"<8I{DATA_BYTES}sI",
            *(FIRST_MAGIC, SECOND_MAGIC, FAMILY_PRESENT),
            *(address + number * PAYLOAD_BYTES, PAYLOAD_BYTES, number, len(payloads), family),
            payload.ljust(PAYLOAD_BYTES, b"\xff"),
            LAST_MAGIC,
        )
        for number, payload in enumerate(payloads)
    )
