/* superblock: see superblock.h. */
#include "store/local/journal/superblock.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define NAME "superblock"
#define NAME_NEW "superblock.tmp"

static int prepare(struct superblock *sb)
{
	*sb = (struct superblock){ .fd = -1 };
	sb->block = mem_aligned(FORMAT_BLOCK, 2 * FORMAT_BLOCK);
	return sb->block ? 0 : -ENOMEM;
}

static void fill_block(struct superblock *sb, size_t at, const struct superblock_slot *slot)
{
	memset(sb->block + at, 0, FORMAT_BLOCK);
	memcpy(sb->block + at, slot, sizeof(*slot));
}

static void close_fd(struct superblock *sb, const struct folder *folder)
{
	if (sb->fd >= 0)
		folder->fs->methods->close(folder->fs, sb->fd);
	sb->fd = -1;
}

/* Writes a whole new file with both slots alike and puts it in place. */
static int write_new(struct superblock *sb, const struct folder *folder,
                     const struct superblock_slot *slot)
{
	const struct file_methods *m = folder->fs->methods;
	char from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX];
	int fd;

	int r = folder_file(folder, NAME_NEW, from);
	if (r == 0)
		r = folder_file(folder, NAME, to);
	if (r == 0)
		r = folder_remove(folder, NAME_NEW);
	if (r < 0)
		return r;
	r = m->open(folder->fs, from,
	            FILE_READ | FILE_WRITE | FILE_CREATE | FILE_DIRECT | FILE_SYNC_DATA, &fd);
	if (r < 0)
		return r;
	fill_block(sb, 0, slot);
	fill_block(sb, FORMAT_BLOCK, slot);
	r = m->write(folder->fs, fd, sb->block, 2 * FORMAT_BLOCK, 0);
	if (r == 0)
		r = m->sync_data(folder->fs, fd);
	if (r == 0)
		r = m->rename(folder->fs, from, to);
	if (r == 0)
		r = folder_sync(folder);
	if (r < 0) {
		m->close(folder->fs, fd);
		return r;
	}
	close_fd(sb, folder);
	sb->fd = fd;
	sb->slot = *slot;
	sb->oldest = slot->oldest;
	sb->scan_from = slot->scan_from;
	sb->poisoned = false;
	return 0;
}

int superblock_create(struct superblock *sb, struct folder *folder)
{
	struct superblock_slot slot = { .generation = 1, .oldest = 1, .scan_from = 1 };

	int r = prepare(sb);
	if (r == 0)
		r = hash_random(slot.folder_id, sizeof(slot.folder_id));
	if (r == 0)
		r = hash_random(slot.key, sizeof(slot.key));
	if (r == 0) {
		superblock_slot_seal(&slot);
		r = write_new(sb, folder, &slot);
	}
	if (r < 0) {
		superblock_close(sb, folder);
		return r;
	}
	memcpy(folder->id, slot.folder_id, sizeof(folder->id));
	return 0;
}

/* Takes the newest slot that checks. */
static int choose(struct superblock *sb, int64_t len, struct error_text *text)
{
	int found = 0, version = 0;

	for (int i = 0; i < 2; i++) {
		struct superblock_slot slot;
		if (len < (int64_t)(i + 1) * (int64_t)FORMAT_BLOCK)
			continue;
		memcpy(&slot, sb->block + (size_t)i * FORMAT_BLOCK, sizeof(slot));
		int r = superblock_slot_check(&slot);
		if (r == ERR_VERSION)
			version = (int)slot.version;
		if (r < 0)
			continue;
		if (found == 0 || slot.generation > sb->slot.generation)
			sb->slot = slot;
		if (found == 0 || slot.oldest < sb->oldest)
			sb->oldest = slot.oldest;
		if (found == 0 || slot.scan_from < sb->scan_from)
			sb->scan_from = slot.scan_from;
		found++;
	}
	if (version)
		return error_fill(text, ERR_VERSION,
		                  NAME " has format version %d; this binary knows %u", version,
		                  FORMAT_VERSION_CELLS);
	if (!found)
		return error_fill(text, ERR_DAMAGED,
		                  NAME " is damaged: neither the slot at offset 0 nor the one at "
		                       "4096 is valid");
	sb->one_slot_bad = found == 1;
	return 0;
}

static int read_slots(struct superblock *sb, struct folder *folder, int flags,
                      struct error_text *text)
{
	int r = prepare(sb);
	if (r == 0)
		r = folder_open(folder, NAME, flags, &sb->fd);
	if (r < 0) {
		superblock_close(sb, folder);
		return r == -ENOENT ? r : error_fill(text, r, NAME ": %s", error_name(r));
	}
	int64_t n = folder->fs->methods->read(folder->fs, sb->fd, sb->block, 2 * FORMAT_BLOCK, 0);
	r = n < 0 ? error_fill(text, (int)n, NAME ": %s", error_name((int)n)) : choose(sb, n, text);
	if (r < 0) {
		superblock_close(sb, folder);
		return r;
	}
	memcpy(folder->id, sb->slot.folder_id, sizeof(folder->id));
	return 0;
}

int superblock_open(struct superblock *sb, struct folder *folder, struct error_text *text)
{
	return read_slots(sb, folder, FILE_READ | FILE_WRITE | FILE_DIRECT | FILE_SYNC_DATA, text);
}

int superblock_read(struct superblock *sb, struct folder *folder, struct error_text *text)
{
	int r = read_slots(sb, folder, FILE_READ | FILE_DIRECT, text);
	if (r == 0)
		close_fd(sb, folder);
	return r;
}

int superblock_write(struct superblock *sb, const struct folder *folder,
                     const struct superblock_slot *next)
{
	struct superblock_slot slot = *next;

	CHECK(slot.durable_segment >= sb->slot.durable_segment); /* never back */
	CHECK(sb->block);
	slot.generation = sb->slot.generation + 1;
	memcpy(slot.folder_id, sb->slot.folder_id, sizeof(slot.folder_id));
	memcpy(slot.key, sb->slot.key, sizeof(slot.key));
	superblock_slot_seal(&slot);
	/* A file with a bad slot is replaced too: both its slots must be sound
	 * again before one of them is risked. */
	if (sb->poisoned || sb->one_slot_bad || sb->fd < 0) {
		int r = write_new(sb, folder, &slot);
		if (r == 0)
			sb->one_slot_bad = false;
		return r;
	}
	size_t at = (slot.generation & 1) * FORMAT_BLOCK;
	fill_block(sb, at, &slot);
	int r = folder->fs->methods->write(folder->fs, sb->fd, sb->block + at, FORMAT_BLOCK, at);
	if (r < 0) {
		sb->poisoned = true;
		return r;
	}
	sb->oldest = sb->slot.oldest;
	sb->scan_from = sb->slot.scan_from;
	sb->slot = slot;
	return 0;
}

struct steady_clock_state superblock_clock(const struct superblock_slot *slot)
{
	struct steady_clock_state state = { .steady_ms = slot->steady_ms,
		                            .boot_ms = slot->boot_ms,
		                            .wall_ms = slot->wall_ms };

	memcpy(state.boot_id, slot->boot_id, sizeof(state.boot_id));
	return state;
}

void superblock_close(struct superblock *sb, const struct folder *folder)
{
	close_fd(sb, folder);
	sb->block = mem_free(sb->block);
}
