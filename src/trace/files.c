/* files: see files.h. */
#include "trace/files.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "gate/ticket.h"

#define FOLDER "traces"
#define SUFFIX ".trc"
#define NUMBER_DIGITS 16
#define NAME_LEN (NUMBER_DIGITS + sizeof(SUFFIX) - 1)
#define FILES_LEAST 16u  /* the disk's share is divided into at least so many files */
#define FILTER_SHARE 32u /* of a file; about 12 bits for a term of a record of 480 bytes */
#define BLOCK_BYTES sizeof(struct trace_filter_block)

_Static_assert(sizeof(struct trace_trailer) == BLOCK_BYTES, "a trailer is one more block");

/* The folder was found short enough when it was opened. */
static void path_of(const char *folder, uint64_t number, char ret_path[static TRACE_PATH_MAX])
{
	int n = snprintf(ret_path, TRACE_PATH_MAX, "%s/%016llx%s", folder,
	                 (unsigned long long)number, SUFFIX);
	CHECK(n > 0 && n < TRACE_PATH_MAX);
}

static int open_file(struct file_system *fs, const char *folder, uint64_t number, int flags,
                     int *ret_fd)
{
	char path[TRACE_PATH_MAX];
	path_of(folder, number, path);
	return fs->methods->open(fs, path, flags | FILE_REGULAR, ret_fd);
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

int trace_view_open(struct trace_view *view, struct file_system *fs, const char *folder,
                    uint64_t number)
{
	struct trace_file_header header = { .epoch = 0 };
	struct trace_trailer *trailer = &view->trailer;
	*view = (struct trace_view){ .fs = fs, .fd = -1 };
	int r = open_file(fs, folder, number, FILE_READ, &view->fd);
	if (r == 0)
		r = fs->methods->size(fs, view->fd, &view->size);
	if (r == 0)
		r = read_exactly(view, &header, sizeof(header), 0);
	if (r == 0)
		r = trace_file_header_check(&header);
	view->header_damaged = r == ERR_DAMAGED;
	view->epoch = header.epoch;
	if ((r == 0 || view->header_damaged) && view->size >= sizeof(*trailer)) {
		uint64_t offset = view->size - sizeof(*trailer);
		r = read_exactly(view, trailer, sizeof(*trailer), offset);
		uint64_t epoch = view->header_damaged ? trailer->epoch : view->epoch;
		view->complete = r == 0 && trace_trailer_is_valid(trailer, epoch, offset);
		if (view->complete)
			view->epoch = epoch;
	}
	if (r == 0 || r == ERR_DAMAGED)
		return 0;
	trace_view_close(view);
	return r;
}

void trace_view_close(struct trace_view *view)
{
	if (view->fd >= 0)
		view->fs->methods->close(view->fs, view->fd);
	view->fd = -1;
}

bool trace_view_may_have(const struct trace_view *view, const struct trace_term *term)
{
	if (!view->complete)
		return true;
	uint64_t filter_at = view->trailer.records_end;
	uint32_t count = (uint32_t)((view->trailer.offset - filter_at) / BLOCK_BYTES);
	uint64_t hash = trace_filter_hash(term, view->epoch);
	uint64_t at = filter_at + trace_filter_place(hash, count) * BLOCK_BYTES;
	struct trace_filter_block block;
	return read_exactly(view, &block, sizeof(block), at) < 0 ||
	       trace_filter_has(&block, view->epoch, at, hash);
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

/* ---- writing ---- */

static struct trace_file *last_file(struct trace_files *files)
{
	CHECK(files->count > 0);
	return &files->files[files->count - 1];
}

static void close_last(struct trace_files *files)
{
	if (files->fd >= 0)
		files->fs->methods->close(files->fs, files->fd);
	files->fd = -1;
}

static int remove_file(struct trace_files *files, uint64_t number)
{
	char path[TRACE_PATH_MAX];
	path_of(files->folder, number, path);
	int r = files->fs->methods->remove(files->fs, path);
	return r == -ENOENT ? 0 : r;
}

static void count_record(struct trace_file *file, const struct trace *trace, size_t size)
{
	if (file->record_count++ == 0)
		file->first_ms = trace->time_ms;
	if (trace->time_ms > file->last_ms)
		file->last_ms = trace->time_ms;
	file->size += size;
}

uint64_t trace_files_bytes(const struct trace_files *files)
{
	uint64_t bytes = files->gaps.file_bytes;
	for (uint32_t i = 0; i < files->count; i++)
		bytes += files->files[i].size;
	return bytes;
}

static bool has_room(const struct trace_files *files, const struct trace_file *file, size_t size)
{
	return file->size + size + (files->filter.count + 1) * BLOCK_BYTES <= files->file_bytes;
}

/* Completes the last file, if it is open: filter, trailer, sync. After an error it is without
 * them, and a question reads all of it. */
static void finish(struct trace_files *files)
{
	if (files->fd < 0)
		return;
	struct trace_file *file = last_file(files);
	uint64_t filter_bytes = files->filter.count * BLOCK_BYTES;
	struct trace_trailer trailer = {
		.epoch = files->filter.epoch,
		.records_end = file->size,
		.offset = file->size + filter_bytes,
		.record_count = file->record_count,
		.first_ms = file->first_ms,
		.last_ms = file->last_ms,
	};
	trace_filter_seal(&files->filter, file->size);
	trace_trailer_seal(&trailer);
	memcpy(&files->filter.blocks[files->filter.count], &trailer, sizeof(trailer));
	if (files->fs->methods->write(files->fs, files->fd, files->filter.blocks,
	                              filter_bytes + sizeof(trailer), file->size) == 0) {
		file->size += filter_bytes + sizeof(trailer);
		(void)files->fs->methods->sync_data(files->fs, files->fd);
	}
	close_last(files);
}

/* Completes the last file and begins another, after deleting the oldest ones if there are too
 * many bytes. The gaps are saved in between: they are those of all files before the new one.
 * If that fails, the earlier save and the files behind it still have them. */
static int begin_file(struct trace_files *files, uint64_t now_ms)
{
	const struct file_methods *methods = files->fs->methods;
	struct trace_file_header header = { .created_ms = now_ms };
	int r = 0;
	CHECK(!files->read_only); /* T3 */
	finish(files);
	(void)trace_gaps_save(&files->gaps, files->fs, files->folder, files->next_number);
	while (files->count > 0 &&
	       (files->count == TRACE_FILES_MAX ||
	        trace_files_bytes(files) + files->file_bytes > files->disk_bytes)) {
		r = remove_file(files, files->files[0].number);
		if (r < 0)
			return r;
		memmove(files->files, files->files + 1, --files->count * sizeof(files->files[0]));
	}
	r = hash_random(&header.epoch, sizeof(header.epoch));
	if (r < 0)
		return r;
	trace_file_header_seal(&header);
	uint64_t number = files->next_number++;
	r = open_file(files->fs, files->folder, number,
	              FILE_READ | FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &files->fd);
	if (r < 0)
		return r;
	r = methods->write(files->fs, files->fd, &header, sizeof(header), 0);
	if (r == 0)
		r = methods->sync_dir(files->fs, files->folder);
	if (r < 0) {
		close_last(files);
		(void)remove_file(files, number);
		return r;
	}
	memset(files->filter.blocks, 0, files->filter.count * BLOCK_BYTES);
	files->filter.epoch = header.epoch;
	files->files[files->count++] = (struct trace_file){ .number = number,
		                                            .size = sizeof(header) };
	return 0;
}

/* A record of an event that returned after its window says so itself. */
static void update_gaps(struct trace_files *files, struct trace *trace, unsigned char *bytes)
{
	struct trace_record record;
	uint64_t before = 0;
	if (!trace_gaps_add(&files->gaps, trace, &before))
		return;
	memcpy(&record, bytes, sizeof(record));
	record.flags |= TRACE_RETURNED;
	record.original = trace->original = before; /* T2: also in the filter */
	record.gap_ms = ticket_time_ms(record.ticket) - ticket_time_ms(before);
	memcpy(bytes, &record, sizeof(record));
}

int trace_files_write(struct trace_files *files, unsigned char *records, size_t len,
                      uint64_t *ret_written)
{
	int r = 0;
	*ret_written = 0;
	for (size_t at = 0, end = 0; at < len; at = end) {
		/* As many records as the file has room for, in one write. The gaps that are
		 * saved with a new file have nothing of the traces in it. */
		struct trace_record first;
		memcpy(&first, records + at, sizeof(first));
		if (r == 0 && (files->fd < 0 || !has_room(files, last_file(files), first.size)))
			r = begin_file(files, first.time_ms);
		struct trace_file grown = r == 0 ? *last_file(files) : (struct trace_file){ 0 };
		while (end < len) {
			struct trace trace;
			size_t size = 0;
			int read = trace_record_read(span_of(records + end, len - end), &trace,
			                             &size);
			CHECK(read == 0); /* written by trace_record_write() */
			if (r == 0 && !has_room(files, &grown, size))
				break;
			update_gaps(files, &trace, records + end);
			if (r == 0) {
				trace_record_seal(records + end, files->filter.epoch, grown.size);
				trace_filter_add(&files->filter, &trace); /* T2 */
				count_record(&grown, &trace, size);
			}
			end += size;
		}
		if (r < 0)
			break;
		r = files->fs->methods->write(files->fs, files->fd, records + at, end - at,
		                              last_file(files)->size);
		if (r < 0) {
			close_last(files);
			continue;
		}
		*ret_written += grown.record_count - last_file(files)->record_count;
		*last_file(files) = grown;
	}
	if (r == 0 && files->fd >= 0) {
		r = files->fs->methods->sync_data(files->fs, files->fd);
		if (r < 0)
			close_last(files);
	}
	return r;
}

/* ---- opening ---- */

/* One line for a file. An incomplete end is what a crash leaves: an operator need not act. */
static void log_damage(const struct trace_files *files, const struct trace_view *view,
                       const struct trace_reader *reader, uint64_t number)
{
	char path[TRACE_PATH_MAX];
	uint64_t end = view->complete ? view->trailer.records_end : view->size;
	uint64_t rest = end > reader->end ? end - reader->end : 0;
	uint64_t damaged = reader->damaged_bytes + (view->complete ? rest : 0);
	uint64_t offset = reader->damaged_bytes > 0 ? reader->damaged_at : reader->end;
	if (view->header_damaged) { /* a crash may have left an empty file */
		uint64_t header = sizeof(struct trace_file_header);
		damaged += view->size < header ? view->size : header;
		offset = 0;
	}
	path_of(files->folder, number, path);
	if (damaged > 0)
		log_warn("trace file damaged: these bytes were skipped", log_str("file", path),
		         log_u64("offset", offset), log_u64("bytes", damaged));
	else if (rest > 0 || view->header_damaged)
		log_info("trace file has an incomplete end, as after a crash: it was cut off",
		         log_str("file", path), log_u64("offset", offset), log_u64("bytes", rest));
}

/* Reads the records of a file into the gaps and, without a trailer, into the filter. */
static int load_records(struct trace_files *files, const struct trace_view *view,
                        struct trace_file *file, struct buf *bytes)
{
	bool to_filter = !view->complete && files->filter.blocks;
	struct trace_reader reader;
	struct trace trace;
	uint64_t offset = 0, before = 0;
	int r = trace_view_read(view, bytes, &reader);
	if (r < 0)
		return r;
	if (to_filter)
		memset(files->filter.blocks, 0, files->filter.count * BLOCK_BYTES);
	files->filter.epoch = view->epoch;
	while (trace_reader_next(&reader, &trace, &offset)) {
		count_record(file, &trace, 0);
		if (to_filter)
			trace_filter_add(&files->filter, &trace);
		if (file->number >= files->gaps.from)
			(void)trace_gaps_add(&files->gaps, &trace, &before);
	}
	log_damage(files, view, &reader, file->number);
	file->size = view->complete ? view->size : reader.end;
	return view->header_damaged && file->record_count == 0 ? ERR_DAMAGED : 0;
}

/* Adds a file to the list. ERR_DAMAGED: nothing in it is of use. */
static int load_file(struct trace_files *files, uint64_t number, bool is_last, struct buf *bytes)
{
	struct trace_file file = { .number = number };
	struct trace_view view;
	int r = trace_view_open(&view, files->fs, files->folder, number);
	if (r < 0)
		return r;
	if (view.complete && number < files->gaps.from) {
		file.size = view.size;
		file.record_count = view.trailer.record_count;
		file.first_ms = view.trailer.first_ms;
		file.last_ms = view.trailer.last_ms;
	} else {
		r = load_records(files, &view, &file, bytes);
	}
	trace_view_close(&view);
	if (r < 0)
		return r;
	files->files[files->count++] = file;
	if (view.complete || files->read_only)
		return 0;
	/* It is appended to, or completed; its filter is in memory. */
	if (open_file(files->fs, files->folder, number, FILE_READ | FILE_WRITE, &files->fd) == 0 &&
	    files->fs->methods->truncate(files->fs, files->fd, file.size) < 0)
		close_last(files);
	/* The gaps of a file below `from` were saved: nothing may be added to it. */
	if (!is_last || number < files->gaps.from)
		finish(files);
	return 0;
}

static int load(struct trace_files *files)
{
	struct buf list = { 0 }, bytes = { 0 };
	uint64_t other_format = 0;
	int r = trace_gaps_load(&files->gaps, files->fs, files->folder);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		log_warn("file of gaps damaged: advice on windows knows only the present traces",
		         log_str("folder", files->folder), log_code(r));
	r = trace_files_list(files->fs, files->folder, &list);
	size_t count = list.len / sizeof(uint64_t);
	for (size_t i = 0; i < count && r == 0; i++) {
		char path[TRACE_PATH_MAX];
		uint64_t number = 0;
		memcpy(&number, list.ptr + i * sizeof(number), sizeof(number));
		files->next_number = number + 1;
		if (count - i > TRACE_FILES_MAX)
			continue;
		r = load_file(files, number, i + 1 == count, &bytes);
		if (r == -ENOMEM)
			break;
		if (r == ERR_VERSION)
			other_format++;
		else if (r == ERR_DAMAGED && !files->read_only)
			(void)remove_file(files, number);
		else if (r < 0 && r != -ENOENT && r != ERR_DAMAGED) {
			path_of(files->folder, number, path);
			log_warn("trace file cannot be read", log_str("file", path), log_code(r));
		}
		r = 0;
	}
	if (other_format > 0)
		log_info("trace files of another format are not read and may be deleted",
		         log_str("folder", files->folder), log_u64("files", other_format));
	if (files->next_number < files->gaps.from)
		files->next_number = files->gaps.from;
	buf_free(&bytes);
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
	files->filter.count = (uint32_t)(files->file_bytes / FILTER_SHARE / BLOCK_BYTES);
	CHECK(files->filter.count > 0);
	int n = snprintf(folder, sizeof(folder), "%s/" FOLDER, options->path);
	int r = n < 0 || n >= TRACE_PATH_MAX - (int)NAME_LEN - 1 ? -ENAMETOOLONG : 0;
	if (r == 0) {
		files->folder = mem_strdup(folder);
		r = files->folder ? 0 : -ENOMEM;
	}
	if (r == 0 && !files->read_only) {
		files->filter.blocks = mem_alloc((files->filter.count + 1) * BLOCK_BYTES);
		r = files->filter.blocks ? files->fs->methods->make_dir(files->fs, folder)
		                         : -ENOMEM;
		if (r == 0)
			r = files->fs->methods->sync_dir(files->fs, options->path);
	}
	if (r == 0)
		r = load(files);
	if (r < 0)
		return error_fill(ret_text, r, "%s/" FOLDER ": %s", options->path, error_name(r));
	return 0;
}

void trace_files_close(struct trace_files *files)
{
	if (!files->fs)
		return;
	close_last(files);
	trace_gaps_free(&files->gaps);
	mem_free(files->filter.blocks);
	mem_free(files->folder);
	*files = (struct trace_files){ .fd = -1 };
}
