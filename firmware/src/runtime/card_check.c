/* SPDX-License-Identifier: Apache-2.0 */
#include "card_check.h"

#include "poet/block_device.h"
#include "poet/record.h"

const uint8_t poet_card_check_kernels = 1;

/* Whether a kept tensor lies as an operator reads or writes it: as a whole, or by rows. Rows of a tensor that lies as a
 * whole can be read where each begins a block. */
static bool lies_suitably(const poet_kept *kept, const poet_sizes *sizes, bool input)
{
    if (kept->rows > 1u || !input || sizes->kept_rows <= 1u) {
        return kept->rows == (sizes->kept_rows > 0 ? sizes->kept_rows : 1u);
    }
    return kept->bytes / sizes->kept_rows % POET_BLOCK_BYTES == 0;
}

static bool is_kept_soundly(const poet_model *model, const poet_sizes *sizes, uint32_t word, uint32_t bytes, bool input)
{
    const uint32_t number = word >> POET_WORD_KEPT_SHIFT;
    if (word % 4u != POET_WORD_KEPT || number >= model->kept_count) {
        return false;
    }
    const poet_kept *kept = &model->kept[number];
    return kept->bytes == bytes && lies_suitably(kept, sizes, input) && (input || kept->check < model->unit_count);
}

static int check_page(const poet_model *model, const poet_schedule *schedule, const poet_call *call)
{
    const uint32_t *words = schedule->words + call->words;
    if (call->inputs > 0 || call->outputs > 0 || (call->flags & (POET_WORKSPACE | POET_CHANGES)) != 0 ||
        POET_PAGE_WORDS > schedule->word_count - call->words) {
        return POET_E_CORRUPT;
    }
    const uint32_t bytes = words[POET_PAGE_BYTES];
    const uint32_t blocks = bytes / POET_BLOCK_BYTES + (bytes % POET_BLOCK_BYTES > 0);
    const bool inside = bytes > 0 && words[POET_PAGE_PLACE] % 4u == 0 &&
                        poet_lies_inside(model, schedule, words[POET_PAGE_PLACE], bytes, true);
    const bool on_card = words[POET_PAGE_NUMBER] < schedule->page_count && blocks <= schedule->page_blocks &&
                         words[POET_PAGE_BLOCK] <= schedule->page_blocks - blocks;
    return inside && on_card ? POET_OK : POET_E_CORRUPT;
}

const poet_card_check poet_card_checks = {poet_record_layout_is_sound, is_kept_soundly, check_page};
