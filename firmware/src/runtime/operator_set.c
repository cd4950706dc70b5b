/* SPDX-License-Identifier: Apache-2.0 */
/* Operators by their codes. It names no operator's function, so that a program links those alone which it names itself.
 */
#include "poet/operator.h"

const poet_operator *poet_operator_find(const poet_operator_set *set, uint8_t code)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->operators[i].code == code) {
            return &set->operators[i];
        }
    }
    return NULL;
}
