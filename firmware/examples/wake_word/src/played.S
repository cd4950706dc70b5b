/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated microphone plays from flash: `python task.py build` writes it, main.c says what it is. */
    .section .rodata
    .balign 4
    .global shown, shown_end, there, heard, heard_end
there:
    .incbin "there.f32"
shown:
    .incbin "shown.i16"
shown_end:
heard:
    .incbin "heard.i16"
heard_end:
