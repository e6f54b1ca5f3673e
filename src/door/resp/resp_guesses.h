/*
 * resp_guesses: addresses with wrong passwords, so that guessing takes time.
 *
 * An address (of IPv6: its /64 network) with its n-th wrong password in a row is answered
 * RESP_GUESS_FIRST_MS · 2ⁿ⁻¹ later, at most RESP_GUESS_MAX_MS; until then no AUTH from there is
 * answered, right or wrong. Wrong passwords are forgotten RESP_GUESS_MEMORY_MS after the last
 * one. Beyond RESP_GUESS_ADDRESSES the address with the oldest is forgotten first.
 *
 * Room:      door/resp. Threads: any; a lock inside, held for a look at the table.
 * Ownership: resp_guesses_new() creates, resp_guesses_free() frees.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "codec/ip.h"

#define RESP_GUESS_FIRST_MS 50u
#define RESP_GUESS_MAX_MS 2000u
#define RESP_GUESS_MEMORY_MS 60000u
#define RESP_GUESS_ADDRESSES 1024u

struct resp_guesses;

int resp_guesses_new(struct resp_guesses **ret_guesses) must_check;
struct resp_guesses *resp_guesses_free(struct resp_guesses *guesses); /* accepts NULL */

/* After an AUTH from this address, `wrong` or not: in how many ms it is to be answered. */
uint32_t resp_guesses_wait(struct resp_guesses *guesses, const struct ip_address *address,
                           bool wrong, uint64_t now_ms);
