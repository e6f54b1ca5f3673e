/* claims_file: see claims_file.h. */
#include "store/local/journal/claims_file.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define RUN_BLOCKS 64u
#define RUN_BYTES (RUN_BLOCKS * FORMAT_BLOCK)

void claims_list_add(struct claims_list *list, const struct claims_record *record, size_t max)
{
	if (list->dropped)
		return;
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 1024;
		if (room > max)
			room = max;
		struct claims_record *records = room > list->count
		                                        ? mem_realloc(list->records,
		                                                      room * sizeof(*records))
		                                        : NULL;
		if (!records) {
			claims_list_drop(list);
			return;
		}
		list->records = records;
		list->room = room;
	}
	list->records[list->count++] = *record;
}

void claims_list_drop(struct claims_list *list)
{
	claims_list_free(list);
	list->dropped = true;
}

void claims_list_free(struct claims_list *list)
{
	mem_free(list->records);
	*list = (struct claims_list){ 0 };
}

static void fill_block(unsigned char *block, const struct claims_list *list, uint64_t number,
                       uint32_t index)
{
	size_t first = (size_t)index * CLAIMS_BLOCK_RECORDS, left = list->count - first;
	struct claims_block head = {
		.number = number,
		.index = index,
		.count = left < CLAIMS_BLOCK_RECORDS ? (uint32_t)left : CLAIMS_BLOCK_RECORDS,
	};
	size_t bytes = head.count * sizeof(struct claims_record);

	memcpy(block, &head, sizeof(head));
	memcpy(block + sizeof(head), list->records + first, bytes);
	memset(block + sizeof(head) + bytes, 0, FORMAT_BLOCK - sizeof(head) - bytes);
	claims_block_seal(block);
}

static int write_blocks(const struct folder *folder, int fd, const struct claims_summary *summary,
                        const struct claims_list *list)
{
	cleanup_free unsigned char *run = mem_aligned(FORMAT_BLOCK, RUN_BYTES);
	struct claims_header header = {
		.number = summary->number,
		.record_count = list->count,
		.max_expiry_ms = summary->max_expiry_ms,
		.max_ticket = summary->max_ticket,
		.sealed_ms = summary->sealed_ms,
		.previous_end = summary->previous_end,
		.previous_sequence = summary->previous_sequence,
		.previous_expiry_ms = summary->previous_expiry_ms,
	};
	uint64_t blocks = claims_file_bytes(list->count) / FORMAT_BLOCK - 1, at = 0;
	size_t used = FORMAT_BLOCK;

	if (!run)
		return -ENOMEM;
	memcpy(header.folder_id, folder->id, sizeof(header.folder_id));
	claims_header_seal(&header);
	memset(run, 0, FORMAT_BLOCK);
	memcpy(run, &header, sizeof(header));
	for (uint32_t i = 0; i <= blocks; i++) {
		if (used == RUN_BYTES || i == blocks) {
			int r = folder->fs->methods->write(folder->fs, fd, run, used, at);
			if (r < 0)
				return r;
			at += used;
			used = 0;
		}
		if (i < blocks) {
			fill_block(run + used, list, summary->number, i);
			used += FORMAT_BLOCK;
		}
	}
	return folder->fs->methods->sync_data(folder->fs, fd);
}

int claims_file_write(const struct folder *folder, const struct claims_summary *summary,
                      const struct claims_list *list)
{
	const struct file_methods *m = folder->fs->methods;
	char name[FORMAT_NAME_MAX], from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX];
	int fd = -1;

	CHECK(!list->dropped && summary->record_count == list->count);
	snprintf(name, sizeof(name), "%016llx.clm.tmp", (unsigned long long)summary->number);
	int r = folder_file(folder, name, from);
	if (r == 0)
		r = folder_numbered(folder, summary->number, FILE_KIND_CLAIMS, to);
	if (r == 0)
		r = folder_remove(folder, name);
	if (r == 0)
		r = m->open(folder->fs, from, FILE_READ | FILE_WRITE | FILE_CREATE | FILE_DIRECT,
		            &fd);
	if (r < 0)
		return r;
	r = write_blocks(folder, fd, summary, list);
	int closed = m->close(folder->fs, fd);
	if (r == 0)
		r = closed;
	if (r == 0)
		r = m->rename(folder->fs, from, to);
	if (r < 0) {
		folder_remove(folder, name);
		return r;
	}
	return folder_sync(folder);
}

struct reading {
	const struct folder *folder;
	uint64_t number;
	int fd;
	unsigned char *run;
	char name[FORMAT_NAME_MAX];
	struct error_text *text;
};

static int damaged(const struct reading *reading, uint64_t offset, const char *what)
{
	return error_fill(reading->text, ERR_DAMAGED, "%s is damaged at offset %llu: %s",
	                  reading->name, (unsigned long long)offset, what);
}

static int read_run(const struct reading *reading, uint64_t offset, size_t len)
{
	struct file_system *fs = reading->folder->fs;
	int64_t n = fs->methods->read(fs, reading->fd, reading->run, len, offset);

	if (n < 0)
		return error_fill(reading->text, (int)n, "%s: %s", reading->name,
		                  error_name((int)n));
	if ((size_t)n < len)
		return damaged(reading, offset + (uint64_t)n, "the file is too short");
	return 0;
}

static int read_head(const struct reading *reading, struct claims_header *ret_header)
{
	int r = read_run(reading, 0, FORMAT_BLOCK);
	if (r < 0)
		return r;
	memcpy(ret_header, reading->run, sizeof(*ret_header));
	r = claims_header_check(ret_header);
	if (r == ERR_VERSION)
		return error_fill(reading->text, r,
		                  "%s has format version %u; this binary knows %u", reading->name,
		                  ret_header->version, FORMAT_VERSION);
	if (r < 0)
		return damaged(reading, 0, "the header does not check");
	if (ret_header->number != reading->number ||
	    memcmp(ret_header->folder_id, reading->folder->id, FORMAT_ID_LEN) != 0)
		return damaged(reading, 0, "the header belongs to another file");
	return 0;
}

static bool records_valid(const struct claims_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!format_ticket_valid(records[i].ticket) ||
		    (records[i].kind == CLAIMS_RECORD_CLAIM &&
		     records[i].flags & ~CLAIMS_RECORD_FLAGS))
			return false;
	return true;
}

static int read_blocks(const struct reading *reading, const struct claims_header *header,
                       const struct claims_visitor *visitor)
{
	uint64_t blocks = claims_file_bytes(header->record_count) / FORMAT_BLOCK - 1;
	uint64_t seen = 0;

	for (uint64_t i = 0; i < blocks;) {
		uint64_t n = blocks - i < RUN_BLOCKS ? blocks - i : RUN_BLOCKS;
		int r = read_run(reading, (1 + i) * FORMAT_BLOCK, n * FORMAT_BLOCK);
		for (uint64_t k = 0; k < n && r == 0; k++, i++) {
			const unsigned char *block = reading->run + k * FORMAT_BLOCK;
			struct claims_block head;
			if (claims_block_check(block, header->number, (uint32_t)i) < 0)
				return damaged(reading, (1 + i) * FORMAT_BLOCK,
				               "the block does not check");
			const struct claims_record *records = (const void *)(block + sizeof(head));
			memcpy(&head, block, sizeof(head));
			if (!records_valid(records, head.count))
				return damaged(reading, (1 + i) * FORMAT_BLOCK,
				               "a record is not valid");
			seen += head.count;
			r = visitor->each(visitor->user, records, head.count);
		}
		if (r != 0)
			return r;
	}
	if (seen != header->record_count)
		return damaged(reading, 0, "the number of records is not the header's");
	return 0;
}

int claims_file_read(const struct folder *folder, uint64_t number,
                     const struct claims_visitor *visitor, struct claims_summary *ret_summary,
                     struct error_text *text)
{
	struct reading reading = { .folder = folder, .number = number, .fd = -1, .text = text };
	struct claims_header header;

	format_name(reading.name, number, FILE_KIND_CLAIMS);
	cleanup_free unsigned char *run = mem_aligned(FORMAT_BLOCK, RUN_BYTES);
	if (!run)
		return -ENOMEM;
	reading.run = run;
	int r = folder_open(folder, reading.name, FILE_READ | FILE_DIRECT, &reading.fd);
	if (r < 0)
		return error_fill(text, r, "%s: %s", reading.name, error_name(r));
	r = read_head(&reading, &header);
	if (r == 0 && visitor)
		r = read_blocks(&reading, &header, visitor);
	folder->fs->methods->close(folder->fs, reading.fd);
	if (r != 0)
		return r;
	*ret_summary = (struct claims_summary){
		.number = number,
		.record_count = header.record_count,
		.max_expiry_ms = header.max_expiry_ms,
		.max_ticket = header.max_ticket,
		.sealed_ms = header.sealed_ms,
		.previous_end = header.previous_end,
		.previous_sequence = header.previous_sequence,
		.previous_expiry_ms = header.previous_expiry_ms,
	};
	return 0;
}

int claims_file_summary(const struct folder *folder, uint64_t number,
                        struct claims_summary *ret_summary, struct error_text *text)
{
	return claims_file_read(folder, number, NULL, ret_summary, text);
}
