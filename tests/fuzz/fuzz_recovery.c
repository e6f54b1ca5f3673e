/*
 * fuzz_recovery: a data folder that somebody wrote to.
 *
 * The first byte chooses what the rest is:
 *   0  edits of the folder's files: file (1), offset (4), length (1), bytes
 *   1  the body of one more frame, sealed as a true one, behind the last
 *   2  the whole superblock
 *   3  the records of the first claims file, their block sealed again
 * Whatever comes, opening it ends with a store or a refusal with a text, and a
 * store that opened answers; and the tool that verifies a folder says the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/local/inspect.h"
#include "store/local/journal/format.h"
#include "store/local/local_store.h"
#include "support/clock_fake.h"
#include "support/oracle.h"
#include "support/simfs.h"
#include "support/store_calls.h"

#define FRAME_MAX 16384u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct clock_fake wall;
static struct oracle record;
static struct simfs *folder;

static struct local_store_options options_of(struct simfs *simfs)
{
	return (struct local_store_options){
		.path = "data",
		.clock = &wall.clock,
		.fs = simfs_fs(simfs),
		.segment_bytes = LOCAL_STORE_SEGMENT_MIN,
		.retain_ms = 500,
		.retain_bytes = 64u << 10,
		.keeper_inline = true,
	};
}

/* A folder with a past, whose process was killed. */
static void folder_make(void)
{
	struct simfs *simfs = simfs_new(1);
	struct local_store_options options;
	struct store *store = NULL;

	clock_fake_init(&wall);
	oracle_init(&record, 1, &wall);
	options = options_of(simfs);
	CHECK(local_store_open(&options, &store, NULL) == 0);
	for (int i = 0; i < 60; i++)
		oracle_step(&record, store);
	for (int i = 0; i < 20; i++) {
		clock_fake_advance(&wall, 200);
		store_tick(store);
	}
	folder = simfs_copy(simfs);
	store_free(store);
	simfs_free(simfs);
}

static void file_read(struct simfs *simfs, const char *path, void *ptr, size_t len, uint64_t offset)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *)ptr)[i] = simfs_file_byte(simfs, path, offset + i);
}

static void edits_apply(struct simfs *simfs, const uint8_t *data, size_t size)
{
	size_t files = 0;

	while (simfs_file_name(simfs, files))
		files++;
	while (size > 6) {
		const char *path = simfs_file_name(simfs, data[0] % files);
		uint32_t offset;
		size_t len = data[5];
		memcpy(&offset, data + 1, 4);
		data += 6;
		size -= 6;
		if (len > size)
			len = size;
		uint64_t file_size = simfs_file_size(simfs, path);
		if (len && file_size)
			simfs_overwrite(simfs, path, offset % file_size, span_of(data, len));
		data += len;
		size -= len;
	}
}

static struct superblock_slot superblock_of(struct simfs *simfs)
{
	struct superblock_slot slots[2];

	for (size_t i = 0; i < 2; i++) {
		file_read(simfs, "data/superblock", &slots[i], sizeof(slots[i]), i * FORMAT_BLOCK);
		if (superblock_slot_check(&slots[i]) < 0)
			slots[i].generation = 0;
	}
	return slots[slots[1].generation > slots[0].generation];
}

static void frame_append(struct simfs *simfs, const uint8_t *data, size_t size)
{
	static unsigned char frame[FRAME_MAX];
	struct superblock_slot superblock = superblock_of(simfs);
	struct segment_header segment;
	char name[FORMAT_NAME_MAX], path[64];

	if (size > FRAME_MAX - sizeof(struct frame_header))
		size = FRAME_MAX - sizeof(struct frame_header);
	format_name(name, superblock.durable_segment, FILE_KIND_SEGMENT);
	snprintf(path, sizeof(path), "data/%s", name);
	file_read(simfs, path, &segment, sizeof(segment), 0);
	memset(frame, 0, sizeof(frame));
	if (size)
		memcpy(frame + sizeof(struct frame_header), data, size);
	struct frame_header header = {
		.entry_count = size ? data[0] % 8u : 0,
		.epoch = segment.epoch,
		.sequence = superblock.durable_sequence + 1,
		.body_len = (uint32_t)size,
		.span = (uint32_t)format_align(size + sizeof(header), FORMAT_BLOCK),
		.steady_ms = superblock.steady_ms,
		.wall_ms = superblock.wall_ms,
	};
	if (superblock.durable_end + header.span > simfs_file_size(simfs, path))
		return;
	frame_seal(frame, &header);
	simfs_overwrite(simfs, path, superblock.durable_end, span_of(frame, header.span));
}

static void claims_replace(struct simfs *simfs, const uint8_t *data, size_t size)
{
	unsigned char block[FORMAT_BLOCK];
	const char *path;

	for (size_t i = 0; (path = simfs_file_name(simfs, i)) != NULL; i++)
		if (strstr(path, ".clm"))
			break;
	if (!path)
		return;
	file_read(simfs, path, block, sizeof(block), FORMAT_BLOCK);
	if (size > sizeof(block) - 8)
		size = sizeof(block) - 8;
	if (size)
		memcpy(block + 8, data, size);
	claims_block_seal(block);
	simfs_overwrite(simfs, path, FORMAT_BLOCK, span_of(block, sizeof(block)));
}

static void must_answer(struct store *store)
{
	struct take_call call = { 0 };
	struct store_admit admit = { .claims = { { .digest = { { 5, 6 } }, .window_s = 9 } },
		                     .claim_count = 1,
		                     .payload = SPAN("{}") };

	store_call(store, &admit.op, STORE_ADMIT);
	take_call_begin(store, &call, 1000, 1u << 20);
	store_flush(store);
	store_tick(store);
	store_free(store);
	CHECK(take_call_poll(&call));
	buf_free(&call.take.items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error_text text = { "" };
	struct store *store = NULL;

	if (!folder)
		folder_make();
	if (size == 0)
		return 0;
	struct simfs *simfs = simfs_copy(folder);
	switch (data[0] % 4) {
	case 0: edits_apply(simfs, data + 1, size - 1); break;
	case 1: frame_append(simfs, data + 1, size - 1); break;
	case 2:
		simfs_cut_file(simfs, "data/superblock", 0);
		simfs_overwrite(simfs, "data/superblock", 0, span_of(data + 1, size - 1));
		break;
	case 3: claims_replace(simfs, data + 1, size - 1); break;
	}
	struct local_store_options options = options_of(simfs);
	struct journal_inspect_options inspect = { .path = options.path,
		                                   .fs = options.fs,
		                                   .clock = options.clock };
	struct journal_report report;
	int verified = journal_verify(&inspect, NULL, &report, NULL);
	int error = local_store_open(&options, &store, &text);
	CHECK(verified == error);
	if (error < 0)
		CHECK(text.text[0]);
	else
		must_answer(store);
	simfs_free(simfs);
	return 0;
}
