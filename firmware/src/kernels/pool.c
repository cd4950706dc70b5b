/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

int poet_pool_read(const int32_t *params, poet_pool *pool)
{
    const poet_max_pool2d_params *p = (const poet_max_pool2d_params *)params;
    const uint32_t planes = poet_count(p->n, p->c, 1, 1);
    *pool = (poet_pool){
        .planes = (int32_t)planes,
        .windows = {.h = p->h, .w = p->w, .r = p->r, .s = p->s, .sh = p->sh, .sw = p->sw, .ph = p->ph, .pw = p->pw},
    };
    if (p->ph >= p->r || p->pw >= p->s || poet_count(p->r, p->s, 1, 1) == 0 ||
        poet_windows_place(&pool->windows) != POET_OK) {
        return POET_E_ARGUMENT;
    }
    pool->x_count = poet_count(p->n, p->c, p->h, p->w);
    pool->y_count = poet_count(p->n, p->c, pool->windows.oh, pool->windows.ow);
    return planes != 0 && pool->x_count != 0 && pool->y_count != 0 ? POET_OK : POET_E_ARGUMENT;
}
