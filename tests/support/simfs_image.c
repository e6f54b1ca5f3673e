/* simfs_image: see simfs_image.h. */
#include "support/simfs_image.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *simfs_need(void *ptr)
{
	if (!ptr) {
		fprintf(stderr, "simfs: out of memory\n");
		abort();
	}
	return ptr;
}

static void page_drop(struct page *page)
{
	if (page && --page->refs == 0)
		free(page);
}

void image_set_count(struct image *image, size_t count)
{
	for (size_t i = count; i < image->count; i++)
		page_drop(image->pages[i]);
	if (count > image->count) {
		image->pages = simfs_need(realloc(image->pages, count * sizeof(struct page *)));
		memset(image->pages + image->count, 0,
		       (count - image->count) * sizeof(struct page *));
	}
	image->count = count;
}

struct page *image_page(const struct image *image, size_t index)
{
	return index < image->count ? image->pages[index] : NULL;
}

void image_put_page(struct image *image, size_t index, struct page *page)
{
	if (index >= image->count)
		image_set_count(image, index + 1);
	if (page)
		page->refs++;
	page_drop(image->pages[index]);
	image->pages[index] = page;
}

/* A page of this image alone, to write to. */
unsigned char *image_own(struct image *image, size_t index)
{
	struct page *page = image_page(image, index);

	if (!page || page->refs > 1) {
		struct page *fresh = simfs_need(calloc(1, sizeof(*fresh)));
		if (page)
			memcpy(fresh->bytes, page->bytes, PAGE);
		image_put_page(image, index, fresh);
		page = fresh;
	}
	return page->bytes;
}

void image_read(const struct image *image, void *ptr, size_t len, uint64_t offset)
{
	for (size_t done = 0; done < len;) {
		size_t in = (size_t)((offset + done) % PAGE);
		size_t n = PAGE - in < len - done ? PAGE - in : len - done;
		struct page *page = image_page(image, (size_t)((offset + done) / PAGE));
		if (page)
			memcpy((char *)ptr + done, page->bytes + in, n);
		else
			memset((char *)ptr + done, 0, n);
		done += n;
	}
}

static bool all_zero(const unsigned char *bytes, size_t len)
{
	return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

void image_write(struct image *image, const void *ptr, size_t len, uint64_t offset)
{
	for (size_t done = 0; done < len;) {
		size_t index = (size_t)((offset + done) / PAGE);
		size_t in = (size_t)((offset + done) % PAGE);
		size_t n = PAGE - in < len - done ? PAGE - in : len - done;
		const unsigned char *from = (const unsigned char *)ptr + done;
		if (n == PAGE && all_zero(from, n))
			image_put_page(image, index, NULL);
		else
			memcpy(image_own(image, index) + in, from, n);
		done += n;
	}
	if (offset + len > image->size)
		image->size = offset + len;
}

void image_resize(struct image *image, uint64_t size)
{
	size_t count = (size_t)((size + PAGE - 1) / PAGE);

	if (size < image->size) {
		if (image->count > count)
			image_set_count(image, count);
		size_t in = (size_t)(size % PAGE);
		if (in && image_page(image, count - 1))
			memset(image_own(image, count - 1) + in, 0, PAGE - in);
	}
	image->size = size;
}

void image_copy(struct image *to, const struct image *from)
{
	*to = (struct image){ .size = from->size };
	if (from->count)
		image_set_count(to, from->count);
	for (size_t i = 0; i < from->count; i++)
		image_put_page(to, i, from->pages[i]);
}

void image_free(struct image *image)
{
	image_set_count(image, 0);
	free(image->pages);
	image->pages = NULL;
	image->size = 0;
}
