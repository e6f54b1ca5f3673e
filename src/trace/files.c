/* files: see files.h. */
#include "trace/files.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"

#define FOLDER "traces"
#define SUFFIX ".trc"
#define NUMBER_DIGITS 16
#define NAME_LEN (NUMBER_DIGITS + sizeof(SUFFIX) - 1)
#define FILES_LEAST 16u  /* the disk's share is divided into at least so many files */
#define FILTER_SHARE 32u /* of a file; about 12 bits for a term of a record of 480 bytes */
#define BLOCK_BYTES sizeof(struct trace_filter_block)

_Static_assert(sizeof(struct trace_trailer) == BLOCK_BYTES, "a trailer is one more block");

static int path_of(const char *folder, uint64_t number, char ret_path[static TRACE_PATH_MAX])
{
	int n = snprintf(ret_path, TRACE_PATH_MAX, "%s/%016llx%s", folder,
	                 (unsigned long long)number, SUFFIX);
	return n < 0 || n >= TRACE_PATH_MAX ? -ENAMETOOLONG : 0;
}

static int open_file(struct file_system *fs, const char *folder, uint64_t number, int flags,
                     int *ret_fd)
{
	char path[TRACE_PATH_MAX];
	int r = path_of(folder, number, path);
	return r < 0 ? r : fs->methods->open(fs, path, flags | FILE_REGULAR, ret_fd);
}

/* ---- reading ---- */

static int note_name(void *user, const char *name)
{
	struct buf *numbers = user;
	uint64_t number = 0;
	if (strlen(name) != NAME_LEN || strcmp(name + NUMBER_DIGITS, SUFFIX) != 0)
		return 0;
	for (int i = 0; i < NUMBER_DIGITS; i++) {
		int digit = hex_value(name[i]);
		if (digit < 0)
			return 0;
		number = number << 4 | (unsigned)digit;
	}
	if (number > 0 && number < UINT64_MAX)
		buf_append(numbers, &number, sizeof(number));
	return numbers->failed;
}

static int by_number(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a;
	uint64_t two = *(const uint64_t *)b;
	return one < two ? -1 : one > two;
}

int trace_files_list(struct file_system *fs, const char *folder, struct buf *ret_numbers)
{
	int r = fs->methods->list(fs, folder, note_name, ret_numbers);
	if (r == 0 && ret_numbers->len > 0)
		qsort(ret_numbers->ptr, ret_numbers->len / sizeof(uint64_t), sizeof(uint64_t),
		      by_number);
	return r;
}

/* 0, ERR_DAMAGED when the file is shorter, or -errno. */
static int read_exactly(const struct trace_view *view, void *ptr, size_t len, uint64_t offset)
{
	int64_t n = view->fs->methods->read(view->fs, view->fd, ptr, len, offset);
	if (n < 0)
		return (int)n;
	return (uint64_t)n == len ? 0 : ERR_DAMAGED;
}

static int read_ends(struct trace_view *view)
{
	struct trace_file_header header = { .epoch = 0 };
	int r = view->fs->methods->size(view->fs, view->fd, &view->size);
	if (r == 0)
		r = read_exactly(view, &header, sizeof(header), 0);
	if (r == 0)
		r = trace_file_header_check(&header);
	view->header_damaged = r == ERR_DAMAGED;
	view->epoch = header.epoch;
	if (r < 0 && r != ERR_DAMAGED)
		return r;
	if (view->size < sizeof(view->trailer))
		return 0;
	uint64_t offset = view->size - sizeof(view->trailer);
	r = read_exactly(view, &view->trailer, sizeof(view->trailer), offset);
	uint64_t epoch = view->header_damaged ? view->trailer.epoch : view->epoch;
	view->complete = r == 0 && trace_trailer_is_valid(&view->trailer, epoch, offset);
	if (view->complete)
		view->epoch = epoch;
	return r == ERR_DAMAGED ? 0 : r;
}

int trace_view_open(struct trace_view *view, struct file_system *fs, const char *folder,
                    uint64_t number)
{
	*view = (struct trace_view){ .fs = fs, .fd = -1 };
	int r = open_file(fs, folder, number, FILE_READ, &view->fd);
	if (r < 0) {
		view->fd = -1;
		return r;
	}
	r = read_ends(view);
	if (r < 0)
		trace_view_close(view);
	return r;
}

void trace_view_close(struct trace_view *view)
{
	if (view->fd >= 0)
		view->fs->methods->close(view->fs, view->fd);
	view->fd = -1;
}

bool trace_view_may_have(const struct trace_view *view, const struct trace_term *terms,
                         uint32_t term_count)
{
	if (!view->complete)
		return true;
	uint64_t filter_at = view->trailer.records_end;
	uint32_t count = (uint32_t)((view->trailer.offset - filter_at) / BLOCK_BYTES);
	for (uint32_t i = 0; i < term_count; i++) {
		struct trace_filter_block block;
		uint64_t hash = trace_filter_hash(&terms[i], view->epoch);
		uint64_t at = filter_at + trace_filter_place(hash, count) * BLOCK_BYTES;
		if (read_exactly(view, &block, sizeof(block), at) < 0 ||
		    trace_filter_has(&block, view->epoch, at, hash))
			return true;
	}
	return term_count == 0;
}

int trace_view_read(const struct trace_view *view, struct buf *bytes,
                    struct trace_reader *ret_reader)
{
	uint64_t len = view->complete ? view->trailer.records_end : view->size;
	if (len > TRACE_FILE_BYTES_MAX)
		len = TRACE_FILE_BYTES_MAX;
	buf_clear(bytes);
	int r = buf_reserve(bytes, len);
	if (r < 0)
		return r;
	int64_t n = len > 0 ? view->fs->methods->read(view->fs, view->fd, bytes->ptr, len, 0) : 0;
	if (n < 0)
		return (int)n;
	bytes->len = (size_t)n;
	*ret_reader = trace_reader_of(buf_span(bytes), view->epoch);
	return 0;
}

/* ---- loading ---- */

static struct trace_file *last_file(struct trace_files *files)
{
	CHECK(files->count > 0);
	return &files->files[files->count - 1];
}

static int remove_file(struct trace_files *files, uint64_t number)
{
	char path[TRACE_PATH_MAX];
	int r = path_of(files->folder, number, path);
	if (r == 0)
		r = files->fs->methods->remove(files->fs, path);
	return r == -ENOENT ? 0 : r;
}

static void note_problem(struct trace_files *files, uint64_t number, uint64_t offset,
                         const char *what)
{
	if (files->problem.text[0] == 0)
		error_fill(&files->problem, 0, FOLDER "/%016llx" SUFFIX " at offset %llu: %s",
		           (unsigned long long)number, (unsigned long long)offset, what);
}

static void close_last(struct trace_files *files)
{
	if (files->fd >= 0)
		files->fs->methods->close(files->fs, files->fd);
	files->fd = -1;
	files->dirty = false;
}

/* Opens a file without a trailer to append to it; its filter is in memory. */
static void resume(struct trace_files *files, const struct trace_file *file, uint64_t epoch)
{
	if (open_file(files->fs, files->folder, file->number, FILE_READ | FILE_WRITE, &files->fd) <
	    0) {
		files->fd = -1;
		return;
	}
	files->epoch = epoch;
	if (files->fs->methods->truncate(files->fs, files->fd, file->size) < 0)
		close_last(files);
}

/* What a file's records are, and what is wrong with them. */
struct loading {
	struct trace_files *files;
	uint64_t from;
	void (*each)(void *user, const struct trace *trace);
	void *user;
	struct buf bytes;
};

static void note_record(struct trace_file *file, const struct trace *trace)
{
	if (file->record_count++ == 0)
		file->first_ms = trace->time_ms;
	if (trace->time_ms > file->last_ms)
		file->last_ms = trace->time_ms;
}

static void report_reading(struct trace_files *files, const struct trace_view *view,
                           const struct trace_reader *reader, uint64_t number)
{
	files->damaged_bytes += reader->damaged_bytes;
	if (view->header_damaged) {
		/* A crash may have left an empty file. */
		uint64_t header = sizeof(struct trace_file_header);
		files->damaged_bytes += view->size < header ? view->size : header;
		note_problem(files, number, 0, "the header is damaged");
	}
	if (reader->damaged_bytes > 0)
		note_problem(files, number, reader->damaged_at, "damaged; the traces are lost");
	if (view->complete && reader->end < view->trailer.records_end) {
		files->damaged_bytes += view->trailer.records_end - reader->end;
		note_problem(files, number, reader->end, "damaged; the traces are lost");
	} else if (!view->complete && reader->end < view->size) {
		files->torn_bytes += view->size - reader->end;
		note_problem(files, number, reader->end,
		             "an incomplete end, from a crash or damage");
	}
}

static int load_records(struct loading *loading, const struct trace_view *view,
                        struct trace_file *file)
{
	struct trace_files *files = loading->files;
	struct trace_reader reader;
	struct trace trace;
	uint64_t offset = 0;
	int r = trace_view_read(view, &loading->bytes, &reader);
	if (r < 0)
		return r;
	if (!view->complete && files->filter)
		memset(files->filter, 0, files->filter_count * BLOCK_BYTES);
	while (trace_reader_next(&reader, &trace, &offset)) {
		note_record(file, &trace);
		if (!view->complete && files->filter)
			trace_filter_add(files->filter, files->filter_count, view->epoch, &trace);
		if (file->number >= loading->from)
			loading->each(loading->user, &trace);
	}
	report_reading(files, view, &reader, file->number);
	if (!view->complete)
		file->size = reader.end;
	return 0;
}

/* Adds a file to the list. ERR_DAMAGED: nothing in it is of use. */
static int load_file(struct loading *loading, uint64_t number, bool is_last)
{
	struct trace_files *files = loading->files;
	struct trace_file file = { .number = number };
	struct trace_view view;
	int r = trace_view_open(&view, files->fs, files->folder, number);
	if (r < 0)
		return r;
	file.size = view.size;
	if (view.complete && number < loading->from) {
		file.record_count = view.trailer.record_count;
		file.first_ms = view.trailer.first_ms;
		file.last_ms = view.trailer.last_ms;
	} else {
		r = load_records(loading, &view, &file);
	}
	trace_view_close(&view);
	if (r == 0 && view.header_damaged && file.record_count == 0)
		r = ERR_DAMAGED;
	if (r < 0)
		return r;
	files->files[files->count++] = file;
	if (view.complete || files->read_only)
		return 0;
	resume(files, &file, view.epoch);
	/* The gaps of a file below `from` were saved: nothing may be added to it. */
	if (!is_last || number < loading->from)
		(void)trace_files_finish(files);
	return 0;
}

int trace_files_load(struct trace_files *files, uint64_t from,
                     void (*each)(void *user, const struct trace *trace), void *user)
{
	struct loading loading = { .files = files, .from = from, .each = each, .user = user };
	struct buf list = { 0 };
	int r = trace_files_list(files->fs, files->folder, &list);
	size_t count = list.len / sizeof(uint64_t);
	for (size_t i = 0; i < count && r == 0; i++) {
		uint64_t number = 0;
		memcpy(&number, list.ptr + i * sizeof(number), sizeof(number));
		files->next_number = number + 1;
		if (count - i > TRACE_FILES_MAX)
			continue;
		r = load_file(&loading, number, i + 1 == count);
		if (r == -ENOMEM)
			break;
		if (r == ERR_VERSION)
			files->foreign_files++;
		else if (r == ERR_DAMAGED && !files->read_only)
			(void)remove_file(files, number);
		else if (r < 0 && r != -ENOENT && r != ERR_DAMAGED)
			note_problem(files, number, 0, error_name(r));
		r = 0;
	}
	if (files->next_number < from)
		files->next_number = from;
	buf_free(&loading.bytes);
	buf_free(&list);
	return r;
}

int trace_files_open(struct trace_files *files, const struct trace_log_options *options,
                     struct error_text *ret_text)
{
	char folder[TRACE_PATH_MAX];
	*files = (struct trace_files){
		.fs = options->fs,
		.read_only = options->read_only,
		.file_bytes = options->disk_bytes / FILES_LEAST,
		.disk_bytes = options->disk_bytes,
		.next_number = 1,
		.fd = -1,
	};
	if (files->file_bytes > TRACE_FILE_BYTES_MAX)
		files->file_bytes = TRACE_FILE_BYTES_MAX;
	files->filter_count = (uint32_t)(files->file_bytes / FILTER_SHARE / BLOCK_BYTES);
	CHECK(files->filter_count > 0);
	int n = snprintf(folder, sizeof(folder), "%s/" FOLDER, options->path);
	int r = n < 0 || n >= TRACE_PATH_MAX - (int)NAME_LEN - 1 ? -ENAMETOOLONG : 0;
	if (r == 0) {
		files->folder = mem_strdup(folder);
		if (!files->folder)
			r = -ENOMEM;
	}
	if (r == 0 && !files->read_only) {
		files->filter = mem_alloc((files->filter_count + 1) * BLOCK_BYTES);
		r = files->filter ? files->fs->methods->make_dir(files->fs, folder) : -ENOMEM;
		if (r == 0)
			r = files->fs->methods->sync_dir(files->fs, options->path);
	}
	if (r < 0) {
		trace_files_close(files);
		return error_fill(ret_text, r, "%s/" FOLDER ": %s", options->path, error_name(r));
	}
	return 0;
}

void trace_files_close(struct trace_files *files)
{
	if (!files->fs)
		return;
	close_last(files);
	mem_free(files->filter);
	mem_free(files->folder);
	*files = (struct trace_files){ .fd = -1 };
}

/* ---- writing ---- */

uint64_t trace_files_bytes(const struct trace_files *files)
{
	uint64_t bytes = files->other_bytes;
	for (uint32_t i = 0; i < files->count; i++)
		bytes += files->files[i].size;
	return bytes;
}

bool trace_files_has_room(const struct trace_files *files, size_t size)
{
	if (files->fd < 0)
		return false;
	uint64_t records_end = files->files[files->count - 1].size + size;
	return records_end + (files->filter_count + 1) * BLOCK_BYTES <= files->file_bytes;
}

int trace_files_finish(struct trace_files *files)
{
	if (files->fd < 0)
		return 0;
	struct trace_file *file = last_file(files);
	uint64_t filter_bytes = files->filter_count * BLOCK_BYTES;
	struct trace_trailer trailer = {
		.epoch = files->epoch,
		.records_end = file->size,
		.offset = file->size + filter_bytes,
		.record_count = file->record_count,
		.first_ms = file->first_ms,
		.last_ms = file->last_ms,
	};
	trace_filter_seal(files->filter, files->filter_count, files->epoch, file->size);
	trace_trailer_seal(&trailer);
	memcpy(&files->filter[files->filter_count], &trailer, sizeof(trailer));
	int r = files->fs->methods->write(files->fs, files->fd, files->filter,
	                                  filter_bytes + sizeof(trailer), file->size);
	if (r == 0) {
		file->size += filter_bytes + sizeof(trailer);
		r = files->fs->methods->sync_data(files->fs, files->fd);
	}
	close_last(files);
	return r;
}

static int remove_oldest(struct trace_files *files)
{
	CHECK(files->count > 0 && files->fd < 0);
	int r = remove_file(files, files->files[0].number);
	if (r < 0)
		return r;
	memmove(files->files, files->files + 1, --files->count * sizeof(files->files[0]));
	return 0;
}

static int create(struct trace_files *files, uint64_t now_ms)
{
	const struct file_methods *methods = files->fs->methods;
	struct trace_file_header header = { .created_ms = now_ms };
	uint64_t number = files->next_number++;
	int r = hash_random(&header.epoch, sizeof(header.epoch));
	if (r < 0)
		return r;
	trace_file_header_seal(&header);
	r = open_file(files->fs, files->folder, number,
	              FILE_READ | FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &files->fd);
	if (r < 0) {
		files->fd = -1;
		return r;
	}
	r = methods->write(files->fs, files->fd, &header, sizeof(header), 0);
	if (r == 0)
		r = methods->sync_dir(files->fs, files->folder);
	if (r < 0) {
		close_last(files);
		(void)remove_file(files, number);
		return r;
	}
	files->epoch = header.epoch;
	files->files[files->count++] = (struct trace_file){ .number = number,
		                                            .size = sizeof(header) };
	return 0;
}

int trace_files_begin(struct trace_files *files, uint64_t now_ms)
{
	CHECK(!files->read_only && files->fd < 0); /* T3 */
	int r = 0;
	while (r == 0 && files->count > 0 &&
	       (files->count == TRACE_FILES_MAX ||
	        trace_files_bytes(files) + files->file_bytes > files->disk_bytes))
		r = remove_oldest(files);
	if (r < 0)
		return r;
	memset(files->filter, 0, files->filter_count * BLOCK_BYTES);
	return create(files, now_ms);
}

int trace_files_append(struct trace_files *files, unsigned char *records, size_t len,
                       uint32_t *ret_count)
{
	CHECK(trace_files_has_room(files, len));
	struct trace_file *file = last_file(files);
	struct trace_file grown = *file;
	*ret_count = 0;
	for (size_t at = 0, size = 0; at < len; at += size) {
		struct trace trace;
		int r = trace_record_read(span_of(records + at, len - at), &trace, &size);
		CHECK(r == 0); /* written by trace_record_write() */
		trace_record_seal(records + at, files->epoch, file->size + at);
		trace_filter_add(files->filter, files->filter_count, files->epoch, &trace); /* T2 */
		note_record(&grown, &trace);
		++*ret_count;
	}
	files->dirty = true;
	int r = files->fs->methods->write(files->fs, files->fd, records, len, file->size);
	if (r < 0) {
		close_last(files);
		return r;
	}
	grown.size += len;
	*file = grown;
	return 0;
}

int trace_files_sync(struct trace_files *files)
{
	if (files->fd < 0 || !files->dirty)
		return 0;
	int r = files->fs->methods->sync_data(files->fs, files->fd);
	files->dirty = false;
	if (r < 0)
		close_last(files);
	return r;
}
