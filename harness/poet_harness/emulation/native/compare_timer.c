/* SPDX-License-Identifier: Apache-2.0 */
#include "compare_timer.h"

static uint64_t now(const struct compare_timer *timer)
{
    return timer->machine->counter->cycles;
}

static uint32_t count(const struct compare_timer *timer)
{
    return (uint32_t)((now(timer) - timer->started_at) / timer->cycles_a_tick);
}

static bool capture(struct compare_timer *timer, uint32_t wanted, uint32_t value)
{
    if (timer->cycles_a_tick == 0 || (wanted != 0 && value != wanted)) {
        return false;
    }
    timer->captured = count(timer);
    timer->is_captured = 1;
    return true;
}

static bool compare(struct compare_timer *timer, uint32_t channel, uint32_t value)
{
    if (timer->cycles_a_tick == 0) {
        return false;
    }
    /* The count that it has already comes again after a whole turn. */
    const uint64_t left = (uint64_t)(uint32_t)(value - count(timer) - 1u) + 1u;
    timer->compare[channel] = value;
    timer->due[channel] = now(timer) + left * timer->cycles_a_tick;
    return true;
}

/* The flags, with those whose time has come. */
static uint32_t flags(struct compare_timer *timer, uint32_t channel)
{
    if (now(timer) >= timer->due[channel]) {
        timer->flags |= timer->channel_flags[channel];
        timer->due[channel] += (uint64_t)timer->cycles_a_tick << 32;
    }
    return timer->flags;
}

static const struct timer_register *found(const struct compare_timer *timer, uint32_t offset, uint32_t width)
{
    for (uint32_t i = 0; i < timer->register_count; i++) {
        if (timer->registers[i].offset == offset && timer->registers[i].width == width) {
            return &timer->registers[i];
        }
    }
    return NULL;
}

bool compare_timer_load(void *peripheral, uint32_t offset, uint32_t width, uint32_t *value)
{
    struct compare_timer *timer = peripheral;
    const struct timer_register *place = found(timer, offset, width);

    switch (place == NULL ? TIMER_NOTHING : (enum timer_action)place->load) {
    case TIMER_COUNT:
        *value = timer->cycles_a_tick != 0 ? count(timer) : 0;
        return timer->cycles_a_tick != 0;
    case TIMER_CAPTURED:
        *value = timer->captured;
        return true;
    case TIMER_TAKE_CAPTURED: {
        const bool taken = timer->is_captured != 0;
        *value = timer->captured;
        timer->is_captured = 0;
        return taken;
    }
    case TIMER_COMPARE:
        *value = timer->compare[place->argument];
        return true;
    case TIMER_FLAG:
        *value = (flags(timer, place->argument) & timer->channel_flags[place->argument]) != 0;
        return true;
    case TIMER_FLAGS:
        for (uint32_t channel = 0; channel < TIMER_CHANNELS; channel++) {
            *value = flags(timer, channel);
        }
        return true;
    case TIMER_INTERRUPTS:
        *value = timer->interrupts;
        return true;
    default:
        return false;
    }
}

bool compare_timer_store(void *peripheral, uint32_t offset, uint32_t width, uint32_t value)
{
    struct compare_timer *timer = peripheral;
    const struct timer_register *place = found(timer, offset, width);

    switch (place == NULL ? TIMER_NOTHING : (enum timer_action)place->store) {
    case TIMER_CAPTURE:
        return capture(timer, place->argument, value);
    case TIMER_COMPARE:
        return compare(timer, place->argument, value);
    case TIMER_FLAG:
        timer->flags &= ~timer->channel_flags[place->argument];
        timer->flags |= value != 0 ? timer->channel_flags[place->argument] : 0;
        return true;
    case TIMER_FLAGS:
        timer->flags &= value;
        return true;
    case TIMER_CLEAR_FLAGS:
        timer->flags &= ~value;
        return true;
    case TIMER_INTERRUPTS:
        timer->interrupts = value;
        return true;
    case TIMER_ENABLE:
        timer->interrupts |= value;
        return true;
    case TIMER_DISABLE:
        timer->interrupts &= ~value;
        return true;
    default:
        return false;
    }
}

bool compare_timer_pending_at(const void *peripheral, uint64_t now_, uint64_t *when)
{
    const struct compare_timer *timer = peripheral;

    *when = UINT64_MAX;
    for (uint32_t channel = 0; channel < TIMER_CHANNELS; channel++) {
        const uint32_t flag = timer->channel_flags[channel];
        const uint64_t at = (timer->flags & flag) != 0 ? now_ : timer->due[channel];
        if ((timer->interrupts & flag) != 0 && at < *when) {
            *when = at;
        }
    }
    return *when != UINT64_MAX;
}
