/*
 * simfs_image: the bytes of a simulated file, in pages that copies share.
 *
 * Pages are counted; a page that two images hold is copied before it is written
 * to. NULL is a page of zeros.
 *
 * Room: tests, for simfs.c alone. Uses malloc, see simfs.h; aborts without it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PAGE 4096u

struct page {
	uint32_t refs;
	unsigned char bytes[PAGE];
};

struct image {
	struct page **pages;
	size_t count;
	uint64_t size;
};

void *simfs_need(void *ptr); /* what malloc gave, or the end */

void image_set_count(struct image *image, size_t count);
struct page *image_page(const struct image *image, size_t index);
void image_put_page(struct image *image, size_t index, struct page *page);
unsigned char *image_own(struct image *image, size_t index);
void image_read(const struct image *image, void *ptr, size_t len, uint64_t offset);
void image_write(struct image *image, const void *ptr, size_t len, uint64_t offset);
void image_resize(struct image *image, uint64_t size);
void image_copy(struct image *to, const struct image *from);
void image_free(struct image *image);
