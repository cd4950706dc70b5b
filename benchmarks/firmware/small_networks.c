/* SPDX-License-Identifier: Apache-2.0 */
/* The least application around the network `net`, each part of it a call of its own. */
#include <net.h>
#include <poet/poet.h>

static poet learner;
static uint32_t ram[(NET_RAM_BYTES + 3u) / 4u];

int begin(void);
int train_at(uint32_t rate_bits);
int infer(void);
uint32_t place(uint32_t what);

int begin(void)
{
    return poet_begin(&learner, &net, ram, sizeof ram, NULL, NULL);
}

/* The bits of a float: calls pass whole numbers alone. */
int train_at(uint32_t rate_bits)
{
    const union {
        uint32_t bits;
        float rate;
    } number = {rate_bits};
    return poet_train(&learner, number.rate);
}

int infer(void)
{
    return poet_infer(&learner);
}

uint32_t place(uint32_t what)
{
    const void *const places[] = {poet_input(&learner, 0), poet_target(&learner, 0), poet_infer_input(&learner),
                                  poet_output(&learner), ram};
    return (uint32_t)(uintptr_t)places[what];
}
