/*
 * address: parses the URL of a PostgreSQL store.
 *
 * Room: store/postgres. Ownership: address_free() takes its texts; a zeroed one is empty.
 * Failure: ERR_CONFIG and a text without the password; -ENOMEM.
 */
#pragma once

#include "base/error.h"
#include "link/postgres_link.h"
#include "store/postgres/schema.h"

struct address {
	char *conninfo; /* the URL without our own parameters */
	char *password; /* NULL: none; must not appear in any text */
	char schema[SCHEMA_NAME_MAX + 1];
};

int address_read(const char *url, struct address *ret_address,
                 struct error_text *ret_text) must_check;
void address_free(struct address *address);

/* A short-lived connection, with the schema chosen and interrupt_fd -1. The caller closes
 * it. */
int address_connect(const struct address *address, struct postgres_link *ret_link,
                    struct error_text *ret_text) must_check;
