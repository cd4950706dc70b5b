/* SPDX-License-Identifier: Apache-2.0 */
/* An application around the network `net`, for any core: so many steps, and the CRC-32 of all its tensors after each.
 * What is not 0 of `control` goes into the control register of the M4F's floating-point unit first. */
#include <string.h>

#include <net.h>
#include <poet/crc32.h>
#include <poet/poet.h>

int train_steps(const uint8_t *inputs, const uint8_t *targets, uint32_t steps, uint32_t *checks, uint32_t control);

int train_steps(const uint8_t *inputs, const uint8_t *targets, uint32_t steps, uint32_t *checks, uint32_t control)
{
    static poet trainer;
    static uint32_t ram[(NET_RAM_BYTES + 3u) / 4u];
#ifdef __ARM_FP
    if (control != 0u) {
        __asm__ volatile("vmsr fpscr, %0" ::"r"(control));
    }
#else
    (void)control;
#endif
    int status = poet_begin(&trainer, &net, ram, sizeof ram, NULL, NULL);
    for (uint32_t step = 0; status == POET_OK && step < steps; step++) {
        for (uint32_t i = 0; i < NET_BATCH; i++, inputs += NET_INPUT_BYTES, targets += NET_TARGET_BYTES) {
            memcpy(poet_input(&trainer, i), inputs, NET_INPUT_BYTES);
            memcpy(poet_target(&trainer, i), targets, NET_TARGET_BYTES);
        }
        status = poet_train(&trainer, 0.1f);
        checks[step] = poet_crc32(0, ram, net.train->model->resident_bytes);
    }
    return status;
}
