/*
 * store_secret: the secret of a shared store's digests, kept in the data folder, so that a
 * gateway that starts while its store is away can compute them: what it spools must be what
 * the store will know.
 *
 * The file is `store-secret`: 16 bytes of secret, and 16 that tell of which URL it is (the
 * URL's digest under the secret). For the owner's eyes alone.
 *
 * Room:    serve. Threads: any one.
 * Failure: -ENOENT: none is kept for this URL; else the error of the file.
 */
#pragma once

#include "base/check.h"
#include "base/hash.h"
#include "base/span.h"
#include "sys/file.h"

int store_secret_read(struct file_system *files, const char *folder, struct span url,
                      unsigned char ret_key[static HASH_KEY_LEN]) must_check;

/* Durable when it returns. What is there already is not written again. */
int store_secret_write(struct file_system *files, const char *folder, struct span url,
                       const unsigned char key[static HASH_KEY_LEN]) must_check;
