/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: plans that arrive as data. The input says what is changed in a whole one, the file POET_PLAN, whose
 * CRC then is right again: it is refused, or runs within its memory, and each step ends. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "poet/built.h"
#include "poet/crc32.h"
#include "poet/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_PLAN 65536u
#define PART 144u

static const poet_built none = {NULL, NULL, {NULL, NULL, NULL, NULL}, NULL, NULL, &poet_all_operators};
static poet_server server;

static int ask(const char *request)
{
    static char words[POET_LINE_BYTES];
    poet_text answer = {words, sizeof words, 0};
    return poet_command_run(&server, request, &answer);
}

static size_t read_plan(uint8_t *plan)
{
    static uint8_t whole[MOST_PLAN];
    static size_t bytes;
    if (bytes == 0) {
        FILE *file = fopen(getenv("POET_PLAN"), "rb");
        bytes = file != NULL ? fread(whole, 1, sizeof whole, file) : 0;
        if (bytes == 0 || fclose(file) != 0) {
            abort();
        }
    }
    memcpy(plan, whole, bytes);
    return bytes;
}

/* Five bytes a change: of a bit, a byte, or a word by a little or to an extreme. */
static void change(uint8_t *plan, size_t bytes, const uint8_t *how)
{
    static const uint32_t extremes[] = {0, 1, 0x7fffffffu, 0x80000000u, 0xfffffffcu, 0xffffu, 1u << 27, 1u << 20};
    const size_t at = ((size_t)how[1] | (size_t)how[2] << 8) % bytes;
    uint32_t word;
    memcpy(&word, plan + at / 4u * 4u, 4);
    switch (how[0] % 4u) {
    case 0:
        plan[at] ^= (uint8_t)(1u << how[3] % 8u);
        return;
    case 1:
        plan[at] = how[3];
        return;
    case 2:
        word += ((uint32_t)how[3] - 128u) * (how[4] % 2u ? 4u : 1u);
        break;
    default:
        word = extremes[how[3] % (sizeof extremes / sizeof *extremes)];
    }
    memcpy(plan + at / 4u * 4u, &word, 4);
}

static int load(const uint8_t *plan, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[POET_LINE_BYTES];
    for (size_t at = 0; at < bytes; at += PART) {
        int length = sprintf(line, "load %u ", (unsigned)at);
        for (size_t i = at; i < at + PART && i < bytes; i += 3) {
            const uint32_t three = (uint32_t)plan[i] << 16 | (uint32_t)plan[i + 1] << 8 | plan[i + 2];
            const int left = bytes - i < 3 ? (int)(bytes - i) + 1 : 4;
            for (int digit = 0; digit < left; digit++) {
                line[length++] = digits[three >> (18 - 6 * digit) & 63u];
            }
        }
        line[length] = '\0';
        const int status = ask(line);
        if (status != POET_OK) {
            return status;
        }
    }
    sprintf(line, "load end %08x", (unsigned)poet_crc32(0, plan, (uint32_t)bytes));
    return ask(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t plan[MOST_PLAN + 2u];
    static const char *const requests[] = {
        "step 3c23d70a 0", "step 3c23d70a 1 0", "step 3c23d70a 0 1", "times 0 24", "infer",  "extract 0 0",
        "keep 0 0",        "infer 0",           "get 0 0 100",       "commit 1",   "restore"};
    const size_t bytes = read_plan(plan);
    fuzz_reset();
    poet_server_init(&server, &none);
    for (size_t at = 0; at + 5u <= size && at < 20u; at += 5u) {
        change(plan, bytes, data + at);
    }
    const int status = load(plan, bytes);
    if (size < 5u && status != POET_OK) {
        __builtin_trap();
    }
    for (size_t i = 0; status == POET_OK && i < sizeof requests / sizeof *requests; i++) {
        (void)ask(requests[i]);
    }
    return 0;
}
