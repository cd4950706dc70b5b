// SPDX-License-Identifier: Apache-2.0
// A watch that learns its wearer's exercises. No host takes part: it records, trains, and recognises by itself.
//
// Its network was trained with other people, who wore the watch on the right arm. The wearer shows each exercise eight
// times for two and a half seconds, with the watch on the left arm. The watch keeps that in its flash, trains on it, and
// commits its weights. Whenever it is reset, it goes on from there.
#ifndef WATCH_HPP
#define WATCH_HPP

#include <poet/board.h>
#include <poet/crc32.h>
#include <poet/poet.h>
#include <watch_net.h>

#include "diary.hpp"
#include "sensor.h"
#include "window.hpp"

static constexpr uint32_t batch = WATCH_NET_MICRO_BATCHES * WATCH_NET_BATCH;
static constexpr uint32_t epochs = 30, steps_an_epoch = Diary::entries / batch;
static constexpr float rate = 0.01f;

static poet learner;
static uint32_t ram[(WATCH_NET_RAM_BYTES + 3u) / 4u];
static poet_block_device storage, behind_the_diary;
static poet_block_window rest;

static void say(const char *words)
{
    while (*words != '\0') {
        poet_board_putchar(*words++);
    }
}

static void say_number(const char *words, uint32_t number)
{
    char digits[11];
    char *first = digits + sizeof digits;
    *--first = '\0';
    do {
        *--first = static_cast<char>('0' + number % 10);
        number /= 10;
    } while (number > 0);
    say(words);
    say(first);
}

static void end_line()
{
    poet_board_putchar('\n');
    poet_board_flush();
}

// Another watch may draw what it likes; with this one a computer can follow, and so can the watch after a reset.
static uint32_t drawn(uint32_t draws)
{
    uint32_t random = 1;
    while (draws-- > 0) {
        random = random * 1664525u + 1013904223u;
    }
    return (random >> 8) % Diary::entries;
}

// The wearer moves, and says what it was.
static int listen(Diary &diary)
{
    uint32_t place = diary.count();
    int status = place == 0 ? diary.clear() : POET_OK;
    for (; status == POET_OK && place < sensor_shown_count; place++) {
        Window window = {};
        for (uint32_t i = 0; i < sensor_shown[place].count; i++) {
            window.take(sensor_shown[place].samples[i]);
        }
        status = diary.write(window, sensor_shown[place].exercise);
    }
    return status;
}

// A batch, or the next micro-batch of it.
static int take_batch(Diary &diary)
{
    int status = POET_OK;
    const uint32_t first = poet_steps(&learner) * batch + poet_gathered(&learner) * WATCH_NET_BATCH;
    for (uint32_t i = 0; status == POET_OK && i < WATCH_NET_BATCH; i++) {
        status = diary.read(drawn(first + i + 1));
        diary.window().numbers(poet_input(&learner, i));
        const uint32_t exercise = diary.exercise();
        memcpy(poet_target(&learner, i), &exercise, WATCH_NET_TARGET_BYTES);
    }
    return status;
}

// Piece by piece: between two calls a watch has time for its sensor and for its display.
static int learn(Diary &diary)
{
    int status = POET_OK;
    while (status >= POET_OK && poet_steps(&learner) < epochs * steps_an_epoch) {
        status = take_batch(diary);
        if (status == POET_OK) {
            status = poet_train_begin(&learner, rate);
        }
        while (status == POET_MORE) {
            status = poet_next(&learner);
        }
        if (status == POET_OK && poet_steps(&learner) % steps_an_epoch == 0) {
            status = poet_commit(&learner);
            say_number("learned ", poet_steps(&learner));
            end_line();
        }
    }
    return status;
}

// How often the watch was right.
struct Score {
    uint32_t right, windows;

    void tell(const char *of_what) const
    {
        say(of_what);
        say_number(" ", right);
        say_number(" of ", windows);
        end_line();
    }
};

// What the wearer does later: each exercise, and all together.
static int recognise(const char *when)
{
    int status = POET_OK;
    Score all = {};
    for (uint32_t k = 0; status == POET_OK && k < sensor_later_count; k++) {
        Score score = {};
        Window window = {};
        for (uint32_t i = 0; status == POET_OK && i < sensor_later[k].count; i++) {
            if (window.take(sensor_later[k].samples[i])) {
                window.numbers(poet_infer_input(&learner));
                status = poet_infer(&learner);
                score.right += poet_argmax(poet_output(&learner), WATCH_NET_CLASS_COUNT) == sensor_later[k].exercise;
                score.windows++;
            }
        }
        score.tell(watch_net_classes[sensor_later[k].exercise]);
        all.right += score.right;
        all.windows += score.windows;
    }
    all.tell(when);
    return status;
}

// By it a computer sees that it has the same weights, to the last bit.
static uint32_t weights_crc()
{
    const poet_model *model = watch_net.train->model;
    uint32_t crc = 0;
    for (uint16_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_PARAMETER) {
            crc = poet_crc32(crc, poet_tensor(&learner, i), model->residents[i].bytes);
        }
    }
    return crc;
}

// The chip's own flash; a card where there is no room in it, and where a plan pages.
static int open_storage()
{
    constexpr uint32_t label_and_two_commits = 104;
    const bool pages = watch_net.train->schedule->page_blocks > 0 || watch_net.infer->schedule->page_blocks > 0;
    const int status =
        pages ? POET_E_UNSUPPORTED : poet_board_flash(Diary::blocks + label_and_two_commits, &storage);
    return status == POET_OK ? status : poet_board_storage(&storage);
}

static int wake()
{
    int status = open_storage();
    if (status == POET_OK) {
        const uint32_t left = storage.block_count - Diary::blocks;
        status = poet_block_window_open(&rest, &storage, Diary::blocks, left, &behind_the_diary);
    }
    if (status == POET_OK) {
        status = poet_begin(&learner, &watch_net, ram, sizeof ram, &behind_the_diary, nullptr);
    }
    if (status == POET_E_ABSENT) { // a new watch
        status = poet_pager_format(&behind_the_diary);
        if (status == POET_OK) {
            status = poet_begin(&learner, &watch_net, ram, sizeof ram, &behind_the_diary, nullptr);
        }
    }
    return status;
}

static int live()
{
    static Diary diary(storage);
    int status = wake();
    if (status == POET_OK) {
        status = poet_restore(&learner);
    }
    if (status == POET_E_ABSENT) { // the first day
        status = recognise("before");
    }
    if (status == POET_OK) {
        status = listen(diary);
    }
    if (status == POET_OK) {
        status = learn(diary);
    }
    if (status == POET_OK) {
        status = recognise("after");
    }
    say_number("weights ", weights_crc());
    end_line();
    return status;
}

static void tell_end(int status)
{
    say_number("end ", static_cast<uint32_t>(-status));
    end_line();
}

#endif
