/* trace_files: see trace_files.h. */
#include "trace/trace_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"

#define FOLDER "traces"
#define SUFFIX ".trc"
#define NUMBER_DIGITS 16
/* More than a log ever has, but for a disk that fails at every other write. */
#define FILES_MAX 256u
#define NAME_MAX_LEN (NUMBER_DIGITS + sizeof(SUFFIX))

static int path_of(const char *folder, uint64_t number, char ret_path[static TRACE_PATH_MAX])
{
	int n = snprintf(ret_path, TRACE_PATH_MAX, "%s/%016llx%s", folder,
	                 (unsigned long long)number, SUFFIX);
	return n < 0 || n >= TRACE_PATH_MAX ? -ENAMETOOLONG : 0;
}

static bool number_of(const char *name, uint64_t *ret_number)
{
	uint64_t number = 0;
	if (strlen(name) != NAME_MAX_LEN - 1 || strcmp(name + NUMBER_DIGITS, SUFFIX) != 0)
		return false;
	for (int i = 0; i < NUMBER_DIGITS; i++) {
		int digit = hex_value(name[i]);
		if (digit < 0)
			return false;
		number = number << 4 | (unsigned)digit;
	}
	*ret_number = number;
	return number > 0;
}

static int open_file(const struct trace_files *files, uint64_t number, int flags, int *ret_fd)
{
	char path[TRACE_PATH_MAX];
	int r = path_of(files->folder, number, path);
	return r < 0 ? r : files->fs->methods->open(files->fs, path, flags | FILE_REGULAR, ret_fd);
}

/* ---- windows ---- */

static void window_close(struct trace_files *files)
{
	if (files->window.fd >= 0)
		files->fs->methods->close(files->fs, files->window.fd);
	files->window.fd = -1;
	files->window.filled = 0;
}

static int window_open(struct trace_files *files, uint64_t number)
{
	struct trace_window *window = &files->window;
	if (window->fd >= 0 && window->number == number)
		return 0;
	window_close(files);
	if (!window->bytes)
		window->bytes = mem_alloc(TRACE_BLOCK_BYTES);
	if (!window->bytes)
		return -ENOMEM;
	int r = open_file(files, number, FILE_READ, &window->fd);
	if (r < 0)
		window->fd = -1;
	window->number = number;
	return r;
}

/* These bytes of the file, or ERR_DAMAGED when it ends before. */
static int window_get(struct trace_files *files, uint64_t offset, size_t len,
                      const unsigned char **ret_bytes)
{
	struct trace_window *window = &files->window;
	CHECK(window->fd >= 0 && len <= TRACE_BLOCK_BYTES);
	if (offset < window->base || offset + len > window->base + window->filled) {
		window->filled = 0;
		window->base = offset;
		int64_t n = files->fs->methods->read(files->fs, window->fd, window->bytes,
		                                     TRACE_BLOCK_BYTES, offset);
		if (n < 0)
			return (int)n;
		window->filled = (size_t)n;
	}
	if (offset + len > window->base + window->filled)
		return ERR_DAMAGED;
	*ret_bytes = window->bytes + (offset - window->base);
	return 0;
}

/* The block at this offset of the file in the window, checked. */
static int block_get(struct trace_files *files, uint64_t epoch, uint64_t offset,
                     struct trace_block_header *ret_header, struct span *ret_body)
{
	const unsigned char *bytes = NULL;
	int r = window_get(files, offset, sizeof(*ret_header), &bytes);
	if (r < 0)
		return r;
	struct trace_block_header header;
	memcpy(&header, bytes, sizeof(header));
	if (!trace_block_header_check(&header, epoch, offset))
		return ERR_DAMAGED;
	r = window_get(files, offset, sizeof(header) + header.body_len, &bytes);
	if (r < 0)
		return r;
	if (!trace_block_body_check(&header, bytes + sizeof(header)))
		return ERR_DAMAGED;
	*ret_header = header;
	*ret_body = span_of(bytes + sizeof(header), header.body_len);
	return 0;
}

/* ---- loading ---- */

static void problem(struct trace_files *files, const struct trace_file *file, uint64_t offset,
                    const char *what)
{
	if (files->problem.text[0] == 0)
		error_fill(&files->problem, 0, FOLDER "/%016llx" SUFFIX " at offset %llu: %s",
		           (unsigned long long)file->number, (unsigned long long)offset, what);
}

/* Is the block one that may stand here (T1), and are its records what they say? */
static int use_block(struct trace_files *files, struct trace_file *file,
                     const struct trace_block_header *header, struct span body,
                     const struct trace_files_visitor *visitor)
{
	if (header->sequence <= file->sequence)
		return ERR_DAMAGED;
	if (header->kind == TRACE_BLOCK_GAPS) {
		file->kept += trace_block_span(header->body_len);
		return visitor->gaps(visitor->user, body);
	}
	if (header->kind != TRACE_BLOCK_TRACES)
		return ERR_DAMAGED;
	int r = trace_index_add(&file->index, files->seed, (uint32_t)header->offset, body);
	if (r < 0)
		return r;
	visitor->traces(visitor->user, body);
	struct trace first;
	size_t size = 0;
	if (file->first_ms == 0 && trace_record_read(body, &first, &size) == 0)
		file->first_ms = first.time_ms;
	if (header->last_ms > file->last_ms)
		file->last_ms = header->last_ms;
	return 0;
}

/* Where the file's next good block is, or its end. */
static int load_block(struct trace_files *files, struct trace_file *file, uint64_t offset,
                      const struct trace_files_visitor *visitor)
{
	struct trace_block_header header;
	struct span body;
	int r = block_get(files, file->epoch, offset, &header, &body);
	if (r == 0)
		r = use_block(files, file, &header, body, visitor);
	if (r < 0)
		return r;
	file->sequence = header.sequence;
	file->size = offset + trace_block_span(header.body_len);
	return 0;
}

/* T2: a bad place costs what is up to the next good block. */
static int load_blocks(struct trace_files *files, struct trace_file *file, uint64_t end,
                       const struct trace_files_visitor *visitor)
{
	uint64_t offset = TRACE_ALIGN;
	file->size = TRACE_ALIGN;
	while (offset + TRACE_ALIGN <= end) {
		uint64_t good_until = file->size;
		int r = load_block(files, file, offset, visitor);
		if (r == 0 && offset > good_until) {
			files->damaged_bytes += offset - good_until;
			problem(files, file, good_until, "a damaged block; its traces are lost");
		}
		if (r != 0 && r != ERR_DAMAGED)
			return r;
		offset = r == 0 ? file->size : offset + TRACE_ALIGN;
	}
	if (end > file->size) {
		files->torn_bytes += end - file->size;
		problem(files, file, file->size, "a torn end, from a crash or damage");
	}
	return 0;
}

/* Every block tells the epoch too, so that a damaged header costs nothing else. */
static int find_epoch(struct trace_files *files, struct trace_file *file)
{
	const unsigned char *bytes = NULL;
	struct trace_block_header header;
	for (uint64_t offset = TRACE_ALIGN; offset < TRACE_BLOCK_BYTES; offset += TRACE_ALIGN) {
		int r = window_get(files, offset, sizeof(header), &bytes);
		if (r < 0)
			return r;
		memcpy(&header, bytes, sizeof(header));
		if (!trace_block_header_check(&header, header.epoch, offset))
			continue;
		file->epoch = header.epoch;
		files->damaged_bytes += TRACE_ALIGN;
		problem(files, file, 0, "the file's header is damaged; it is not needed");
		return 0;
	}
	return ERR_DAMAGED;
}

static int load_header(struct trace_files *files, struct trace_file *file)
{
	const unsigned char *bytes = NULL;
	struct trace_file_header header;
	int r = window_get(files, 0, sizeof(header), &bytes);
	if (r < 0)
		return r;
	memcpy(&header, bytes, sizeof(header));
	r = trace_file_header_check(&header);
	if (r == ERR_DAMAGED)
		return find_epoch(files, file);
	if (r == 0 && header.number != file->number)
		r = ERR_DAMAGED;
	if (r == 0)
		file->epoch = header.epoch;
	return r;
}

static int load_file(struct trace_files *files, struct trace_file *file,
                     const struct trace_files_visitor *visitor)
{
	uint64_t end = 0;
	int r = window_open(files, file->number);
	if (r == 0)
		r = files->fs->methods->size(files->fs, files->window.fd, &end);
	if (r == 0)
		r = load_header(files, file);
	if (end > TRACE_FILE_BYTES_MAX)
		end = TRACE_FILE_BYTES_MAX;
	if (r == 0)
		r = load_blocks(files, file, end, visitor);
	window_close(files);
	if (r == ERR_DAMAGED) {
		files->damaged_bytes += end;
		problem(files, file, 0, "no part of the file is good; its traces are lost");
	}
	return r;
}

/* ---- the list ---- */

static int list_add(struct trace_files *files, uint64_t number)
{
	if (files->count == files->room) {
		size_t room = files->room ? files->room * 2 : 16;
		struct trace_file *grown = mem_realloc(files->files, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		files->files = grown;
		files->room = room;
	}
	files->files[files->count++] = (struct trace_file){ .number = number };
	return 0;
}

static void list_drop(struct trace_files *files, size_t at)
{
	CHECK(at < files->count);
	trace_index_free(&files->files[at].index);
	memmove(files->files + at, files->files + at + 1,
	        (files->count - at - 1) * sizeof(*files->files));
	files->count--;
}

static int found(void *user, const char *name)
{
	struct trace_files *files = user;
	uint64_t number = 0;
	return number_of(name, &number) ? list_add(files, number) : 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t one = ((const struct trace_file *)a)->number;
	uint64_t two = ((const struct trace_file *)b)->number;
	return one < two ? -1 : one > two;
}

static int load_all(struct trace_files *files, const struct trace_files_visitor *visitor)
{
	int r = files->fs->methods->list(files->fs, files->folder, found, files);
	if (r < 0)
		return r;
	if (files->count > 0)
		qsort(files->files, files->count, sizeof(*files->files), by_number);
	for (size_t i = 0; i < files->count;) {
		struct trace_file *file = &files->files[i];
		if (file->number >= files->next_number)
			files->next_number = file->number + 1;
		r = load_file(files, file, visitor);
		if (r == -ENOMEM)
			return r;
		if (r == ERR_VERSION)
			files->foreign_files++;
		/* Not one good block: nobody will ever read it. */
		if (r == ERR_DAMAGED && !files->read_only) {
			char path[TRACE_PATH_MAX];
			if (path_of(files->folder, file->number, path) == 0)
				files->fs->methods->remove(files->fs, path);
		} else if (r < 0 && r != ERR_VERSION && r != -ENOENT && r != ERR_DAMAGED) {
			problem(files, file, 0, error_name(r));
		}
		if (r < 0)
			list_drop(files, i);
		else
			i++;
	}
	return 0;
}

/* The last file is written on where its good part ends. */
static void resume(struct trace_files *files)
{
	if (files->count == 0)
		return;
	const struct trace_file *last = &files->files[files->count - 1];
	if (last->number + 1 != files->next_number || last->size - last->kept >= files->file_bytes)
		return;
	if (open_file(files, last->number, FILE_READ | FILE_WRITE, &files->fd) < 0) {
		files->fd = -1;
		return;
	}
	if (files->fs->methods->truncate(files->fs, files->fd, last->size) < 0) {
		files->fs->methods->close(files->fs, files->fd);
		files->fd = -1;
	}
}

static int make_folder(struct trace_files *files, const char *path)
{
	char folder[TRACE_PATH_MAX];
	int n = snprintf(folder, sizeof(folder), "%s/" FOLDER, path);
	if (n < 0 || n >= TRACE_PATH_MAX)
		return -ENAMETOOLONG;
	files->folder = mem_strdup(folder);
	if (!files->folder)
		return -ENOMEM;
	if (files->read_only)
		return 0;
	int r = files->fs->methods->make_dir(files->fs, folder);
	return r < 0 ? r : files->fs->methods->sync_dir(files->fs, path);
}

int trace_files_open(struct trace_files *files, const struct trace_files_options *options,
                     const struct trace_files_visitor *visitor, struct error_text *ret_text)
{
	*files = (struct trace_files){
		.fs = options->fs,
		.read_only = options->read_only,
		.file_bytes = options->file_bytes,
		.disk_bytes = options->disk_bytes,
		.next_number = 1,
		.fd = -1,
		.window = { .fd = -1 },
	};
	int r = hash_random(&files->seed, sizeof(files->seed));
	if (r == 0)
		r = make_folder(files, options->path);
	if (r == 0)
		r = load_all(files, visitor);
	if (r < 0) {
		error_fill(ret_text, r, "%s/" FOLDER ": %s", options->path, error_name(r));
		trace_files_close(files);
		return r;
	}
	if (!files->read_only)
		resume(files);
	return 0;
}

void trace_files_close(struct trace_files *files)
{
	if (!files->fs)
		return;
	window_close(files);
	if (files->fd >= 0)
		files->fs->methods->close(files->fs, files->fd);
	for (size_t i = 0; i < files->count; i++)
		trace_index_free(&files->files[i].index);
	mem_free(files->files);
	mem_free(files->window.bytes);
	mem_free(files->folder);
	*files = (struct trace_files){ .fd = -1, .window = { .fd = -1 } };
}

/* ---- appending ---- */

bool trace_files_has_room(const struct trace_files *files, uint32_t body_len)
{
	if (files->fd < 0)
		return false;
	const struct trace_file *last = &files->files[files->count - 1];
	return last->size - last->kept + trace_block_span(body_len) <= files->file_bytes;
}

static void end_file(struct trace_files *files)
{
	if (files->fd < 0)
		return;
	files->fs->methods->close(files->fs, files->fd);
	files->fd = -1;
	trace_index_shrink(&files->files[files->count - 1].index);
}

int trace_files_remove_oldest(struct trace_files *files)
{
	CHECK(files->count > 0);
	char path[TRACE_PATH_MAX];
	int r = path_of(files->folder, files->files[0].number, path);
	if (files->count == 1)
		end_file(files);
	if (files->window.number == files->files[0].number)
		window_close(files);
	if (r == 0)
		r = files->fs->methods->remove(files->fs, path);
	if (r < 0 && r != -ENOENT)
		return r;
	list_drop(files, 0);
	return 0;
}

int trace_files_shrink(struct trace_files *files)
{
	int r = 0;
	while (r == 0 && files->count > 1 &&
	       trace_files_bytes(files) + files->file_bytes > files->disk_bytes)
		r = trace_files_remove_oldest(files);
	return r;
}

static int make_file(struct trace_files *files, uint64_t now_ms)
{
	char path[TRACE_PATH_MAX];
	struct trace_file_header header = { .number = files->next_number, .begun_ms = now_ms };
	int r = path_of(files->folder, header.number, path);
	if (r == 0)
		r = hash_random(&header.epoch, sizeof(header.epoch));
	if (r < 0)
		return r;
	trace_file_header_seal(&header);
	files->next_number++;
	r = files->fs->methods->open(files->fs, path,
	                             FILE_READ | FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE,
	                             &files->fd);
	if (r < 0) {
		files->fd = -1;
		return r;
	}
	r = files->fs->methods->write(files->fs, files->fd, &header, sizeof(header), 0);
	if (r == 0)
		r = files->fs->methods->sync_dir(files->fs, files->folder);
	if (r < 0) {
		files->fs->methods->close(files->fs, files->fd);
		files->fd = -1;
		files->fs->methods->remove(files->fs, path);
		return r;
	}
	struct trace_file *file = &files->files[files->count - 1];
	file->epoch = header.epoch;
	file->size = TRACE_ALIGN;
	return 0;
}

int trace_files_begin(struct trace_files *files, uint64_t now_ms)
{
	CHECK(!files->read_only);
	end_file(files);
	int r = 0;
	while (r == 0 && files->count > 0 &&
	       (trace_files_bytes(files) + files->file_bytes > files->disk_bytes ||
	        files->count == FILES_MAX))
		r = trace_files_remove_oldest(files);
	if (r == 0)
		r = list_add(files, files->next_number);
	if (r < 0)
		return r;
	r = make_file(files, now_ms);
	if (r < 0)
		list_drop(files, files->count - 1);
	return r;
}

int trace_files_append(struct trace_files *files, const struct trace_files_block *block)
{
	CHECK(files->fd >= 0 && files->count > 0);
	struct trace_file *file = &files->files[files->count - 1];
	struct span body = span_of(block->bytes + TRACE_ALIGN, block->body_len);
	uint32_t span = trace_block_span(block->body_len);
	struct trace_block_header header = {
		.kind = block->kind,
		.epoch = file->epoch,
		.sequence = file->sequence + 1,
		.offset = file->size,
		.body_len = block->body_len,
		.count = block->count,
		.last_ms = block->last_ms,
	};
	bool traces = block->kind == TRACE_BLOCK_TRACES;
	int r = traces ? trace_index_add(&file->index, files->seed, (uint32_t)file->size, body) : 0;
	if (r < 0)
		return r;
	trace_block_seal(&header, body.ptr);
	memcpy(block->bytes, &header, sizeof(header));
	memset(block->bytes + TRACE_ALIGN + block->body_len, 0,
	       span - TRACE_ALIGN - block->body_len);
	if (files->dirty == 0)
		files->dirty = file->number;
	r = files->fs->methods->write(files->fs, files->fd, block->bytes, span, file->size);
	if (r < 0) {
		if (traces)
			trace_index_drop_last(&file->index);
		end_file(files);
		return r;
	}
	file->size += span;
	file->sequence++;
	if (!traces) {
		file->kept += span;
		return 0;
	}
	if (file->first_ms == 0)
		file->first_ms = block->first_ms;
	if (block->last_ms > file->last_ms)
		file->last_ms = block->last_ms;
	return 0;
}

void trace_files_abandon(struct trace_files *files, uint64_t number)
{
	if (files->count > 0 && files->files[files->count - 1].number == number)
		end_file(files);
}

int trace_files_sync(struct file_system *fs, const char *folder, uint64_t number)
{
	char path[TRACE_PATH_MAX];
	int fd = -1;
	int r = path_of(folder, number, path);
	if (r == 0)
		r = fs->methods->open(fs, path, FILE_READ | FILE_WRITE | FILE_REGULAR, &fd);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = fs->methods->sync_data(fs, fd);
	fs->methods->close(fs, fd);
	return r;
}

/* ---- reading ---- */

int trace_files_read(struct trace_files *files, const struct trace_file *file, size_t record,
                     struct trace *ret_trace)
{
	const struct trace_place *place = trace_index_place(&file->index, record);
	struct trace_block_header header;
	struct span body;
	int r = window_open(files, file->number);
	if (r == 0)
		r = block_get(files, file->epoch, place->offset, &header, &body);
	for (size_t i = place->first; r == 0; i++) {
		size_t size = 0;
		r = trace_record_read(body, ret_trace, &size);
		if (i == record)
			break;
		body = span_skip(body, size);
	}
	return r;
}

void trace_files_end_reads(struct trace_files *files)
{
	window_close(files);
}

uint64_t trace_files_bytes(const struct trace_files *files)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < files->count; i++)
		bytes += files->files[i].size;
	return bytes;
}

uint64_t trace_files_index_bytes(const struct trace_files *files)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < files->count; i++)
		bytes += trace_index_bytes(&files->files[i].index);
	return bytes;
}
