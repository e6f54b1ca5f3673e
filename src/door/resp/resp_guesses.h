/*
 * resp_guesses: who has had a wrong password, so that guessing takes time.
 *
 * An address (of IPv6: its network of 64 bits) that was wrong for the n-th time in a row is
 * answered RESP_GUESS_FIRST_MS · 2ⁿ⁻¹ later, at most RESP_GUESS_MAX_MS; and until then nobody
 * from there is answered on AUTH, right or wrong. What was wrong is forgotten after
 * RESP_GUESS_MEMORY_MS without another. Only so many addresses are known: beyond that the one
 * that was wrong longest ago is forgotten first.
 *
 * Room:      door. Threads: any; a lock inside, which is held for a look at the table.
 * Ownership: resp_guesses_new() gives it, resp_guesses_free() takes it.
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

/* An AUTH came from there, and was `wrong` or not: so much later it is to be answered. */
uint32_t resp_guesses_wait(struct resp_guesses *guesses, const struct ip_address *address,
                           bool wrong, uint64_t now_ms);
