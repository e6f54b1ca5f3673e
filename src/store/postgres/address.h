/*
 * address: the URL of a PostgreSQL store, read.
 *
 * Room: store/postgres. Ownership: address_free() takes its texts; a zeroed one is empty.
 * Failure: ERR_CONFIG and a text without the password; -ENOMEM.
 */
#pragma once

#include "base/error.h"
#include "link/postgres_link.h"
#include "store/postgres/schema.h"

struct address {
	char *conninfo; /* without what libpq does not know */
	char *password; /* NULL, or what no text must have */
	char schema[SCHEMA_NAME_MAX + 1];
};

int address_read(const char *url, struct address *ret_address,
                 struct error_text *ret_text) must_check;
void address_free(struct address *address);

/* A connection there that has chosen the schema, for a moment: the caller closes it, and
 * interrupt_fd is -1. */
int address_connect(const struct address *address, struct postgres_link *ret_link,
                    struct error_text *ret_text) must_check;
