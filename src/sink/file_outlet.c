/* file_outlet: see file_outlet.h. */
#include "sink/file_outlet.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#define BATCH_BYTES (1u << 20)
#define FILE_PATH_MAX 1024u /* bytes, with a NUL */
#define DATE "{date}"
#define DATE_LEN 10u  /* 2026-01-31 */
#define STAMP_LEN 20u /* 20260131T235959.999Z */

#define FILE_PATH_LEN_MAX (FILE_PATH_MAX - DATE_LEN - STAMP_LEN - 5)

struct file_names {
	char folder[FILE_PATH_MAX];
	char before[FILE_PATH_MAX]; /* the file's own name, up to {date} */
	char after[FILE_PATH_MAX];
	bool dated;
};

struct file_path {
	char text[FILE_PATH_MAX];
};

struct file_outlet {
	struct outlet outlet;
	struct file_names names;
	struct file_outlet_options options; /* without the path: that is in names */
	const struct clock *clock;
	atomic_bool interrupted;

	struct file_path path; /* of the open file */
	int fd;                /* -1: none */
	uint64_t size;         /* of the file, before the batch */
	uint64_t written_ms;   /* when its last line was written */
	bool torn;             /* it ends inside a line */
	bool folder_synced;    /* its name is on disk */
	struct buf lines;      /* the batch being written */
};

/* The step that failed. */
struct failure {
	int error;
	const char *step;
};

/* ---- names of files ---- */

/* ERR_CONFIG and a text that begins with "path". */
static int names_init(struct file_names *ret_names, struct span path, struct error_text *ret_text)
{
	char text[FILE_PATH_MAX];
	if (path.len == 0 || memchr(path.ptr, '\0', path.len) || path.len > FILE_PATH_LEN_MAX)
		return error_fill(ret_text, ERR_CONFIG, "path: expected 1 to %u bytes",
		                  FILE_PATH_LEN_MAX);
	memcpy(text, path.ptr, path.len);
	text[path.len] = '\0';
	char *slash = strrchr(text, '/');
	const char *name = slash ? slash + 1 : text;
	if (name[0] == '\0')
		return error_fill(ret_text, ERR_CONFIG, "path: is a folder, expected a file");
	const char *date = strstr(name, DATE);
	ret_names->dated = date;
	snprintf(ret_names->before, sizeof(ret_names->before), "%.*s",
	         date ? (int)(date - name) : (int)strlen(name), name);
	snprintf(ret_names->after, sizeof(ret_names->after), "%s", date ? date + strlen(DATE) : "");
	if (strstr(ret_names->after, DATE))
		return error_fill(ret_text, ERR_CONFIG, "path: has {date} twice");
	if (slash == text)
		slash++; /* the root keeps its name */
	snprintf(ret_names->folder, sizeof(ret_names->folder), "%.*s",
	         slash ? (int)(slash - text) : 1, slash ? text : ".");
	if (strstr(ret_names->folder, DATE))
		return error_fill(ret_text, ERR_CONFIG,
		                  "path: {date} is allowed only in the name of the file");
	return 0;
}

/* The file for a line that is written now. */
static void names_current(const struct file_names *names, uint64_t now_ms,
                          struct file_path *ret_path)
{
	char time[TEXT_TIME_LEN];
	text_time(time, now_ms);
	int len = snprintf(ret_path->text, sizeof(ret_path->text), "%s/%s%.*s%s", names->folder,
	                   names->before, names->dated ? (int)DATE_LEN : 0, time, names->after);
	CHECK(len > 0 && (size_t)len < sizeof(ret_path->text));
}

/* A name for what was `current`, that no file has: with the time, without its punctuation. */
static void names_rotated(const struct file_path *current, uint64_t now_ms,
                          struct file_path *ret_path)
{
	do {
		char time[TEXT_TIME_LEN], stamp[STAMP_LEN + 1];
		size_t len = 0;
		text_time(time, now_ms++);
		for (size_t i = 0; i < TEXT_TIME_LEN; i++)
			if (time[i] != '-' && time[i] != ':')
				stamp[len++] = time[i];
		CHECK(len == STAMP_LEN);
		stamp[len] = '\0';
		int path_len = snprintf(ret_path->text, sizeof(ret_path->text), "%s.%s",
		                        current->text, stamp);
		CHECK(path_len > 0);
		CHECK((size_t)path_len < sizeof(ret_path->text));
	} while (access(ret_path->text, F_OK) == 0);
}

/* ---- old files ---- */

/* In `form` a 0 is any digit, every other character is itself. */
static bool has_form(const char *text, const char *form)
{
	for (; *form; form++, text++)
		if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
			return false;
	return true;
}

/* Files are sorted by their day, then by when they were renamed; a file that was not renamed
 * is the last of its day. */
struct old_file {
	char *name;
	const char *date; /* in name, or "" */
	const char *stamp;
};

static bool read_name(const struct file_names *names, char *name, struct old_file *ret_file)
{
	size_t before = strlen(names->before);
	size_t after_len = strlen(names->after);
	const char *at = name;
	if (strncmp(at, names->before, before) != 0)
		return false;
	at += before;
	const char *date = at;
	if (names->dated && !has_form(at, "0000-00-00"))
		return false;
	at += names->dated ? DATE_LEN : 0;
	if (strncmp(at, names->after, after_len) != 0)
		return false;
	at += after_len;
	bool stamped = strlen(at) == STAMP_LEN + 1 && has_form(at, ".00000000T000000.000Z");
	if (!stamped && !(names->dated && *at == '\0'))
		return false;
	*ret_file = (struct old_file){ name, names->dated ? date : "", stamped ? at : "~" };
	return true;
}

static int by_age(const void *a, const void *b)
{
	const struct old_file *left = a;
	const struct old_file *right = b;
	int order = strncmp(left->date, right->date, DATE_LEN);
	return order != 0 ? order : strcmp(left->stamp, right->stamp);
}

struct old_files {
	struct old_file *list;
	size_t count, room;
};

static int add_old(struct old_files *files, const struct file_names *names, const char *name)
{
	struct old_file file;
	char *text = mem_strdup(name);
	if (!text)
		return -ENOMEM;
	if (!read_name(names, text, &file)) {
		mem_free(text);
		return 0;
	}
	if (files->count == files->room) {
		size_t room = files->room > 0 ? 2 * files->room : 16;
		struct old_file *more = mem_realloc(files->list, room * sizeof(*more));
		if (!more) {
			mem_free(text);
			return -ENOMEM;
		}
		files->list = more;
		files->room = room;
	}
	files->list[files->count++] = file;
	return 0;
}

/* Removes all but the newest `keep` of those that are not the open file. 0 or -errno. */
static int names_remove_old(const struct file_names *names, const struct file_path *current,
                            uint32_t keep)
{
	struct old_files files = { 0 };
	DIR *folder = opendir(names->folder);
	int error = 0;
	if (!folder)
		return -errno;
	const char *current_name = current->text + strlen(names->folder) + 1;
	for (const struct dirent *entry; error == 0 && (entry = readdir(folder)) != NULL;)
		if (strcmp(entry->d_name, current_name) != 0)
			error = add_old(&files, names, entry->d_name);
	closedir(folder);
	if (files.count > 0)
		qsort(files.list, files.count, sizeof(*files.list), by_age);
	for (size_t i = 0; error == 0 && i + keep < files.count; i++) {
		char path[2 * FILE_PATH_MAX];
		snprintf(path, sizeof(path), "%s/%s", names->folder, files.list[i].name);
		if (unlink(path) != 0 && errno != ENOENT)
			error = -errno;
	}
	for (size_t i = 0; i < files.count; i++)
		mem_free(files.list[i].name);
	mem_free(files.list);
	return error;
}

/* ---- the file ---- */

static void close_file(struct file_outlet *own)
{
	if (own->fd >= 0)
		close(own->fd);
	own->fd = -1;
}

static bool ends_torn(int fd, off_t size)
{
	char last = '\n';
	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

/* Opening must not wait for the reader of a pipe. */
static int open_file(struct file_outlet *own, const struct file_path *path)
{
	int flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
	struct stat status;
	own->path = *path;
	own->fd = open(path->text, flags, 0640);
	if (own->fd < 0)
		return -errno;
	int error = fstat(own->fd, &status) == 0 ? 0 : -errno;
	if (error == 0 && !S_ISREG(status.st_mode))
		error = ERR_KIND;
	if (error != 0) {
		close_file(own);
		return error;
	}
	own->size = (uint64_t)status.st_size;
	int64_t ms = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
	own->written_ms = ms > 0 ? (uint64_t)ms : 0;
	own->torn = ends_torn(own->fd, status.st_size);
	own->folder_synced = false;
	return 0;
}

/* Is the open file still the one at the path? Updates its size, which others may change. */
static bool is_same(struct file_outlet *own, const struct file_path *path)
{
	struct stat named, opened;
	if (own->fd < 0 || strcmp(path->text, own->path.text) != 0 ||
	    stat(path->text, &named) != 0 || fstat(own->fd, &opened) != 0 ||
	    named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)
		return false;
	if ((uint64_t)opened.st_size != own->size) {
		own->size = (uint64_t)opened.st_size;
		own->torn = ends_torn(own->fd, opened.st_size);
	}
	return true;
}

static int open_current(struct file_outlet *own, const struct file_path *path)
{
	if (is_same(own, path))
		return 0;
	close_file(own);
	int error = open_file(own, path);
	if (error != 0 || own->size > 0 || own->options.keep == 0)
		return error;
	int not_removed = names_remove_old(&own->names, &own->path, own->options.keep);
	if (not_removed != 0)
		log_warn("rotated files not removed", log_str("folder", own->names.folder),
		         log_code(not_removed));
	return 0;
}

static bool must_rotate(const struct file_outlet *own, uint64_t more, uint64_t now_ms)
{
	if (own->size == 0)
		return false;
	bool large = own->options.rotate_bytes > 0 && own->size + more > own->options.rotate_bytes;
	bool old = own->options.rotate_ms > 0 &&
	           own->written_ms / own->options.rotate_ms < now_ms / own->options.rotate_ms;
	return large || old;
}

static int sync_folder(struct file_outlet *own)
{
	if (own->folder_synced)
		return 0;
	int fd = open(own->names.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
	if (fd >= 0)
		close(fd);
	own->folder_synced = error == 0;
	return error;
}

/* ---- writing ---- */

/* Returns how many bytes were. */
static size_t write_lines(struct file_outlet *own, int *ret_error)
{
	size_t at = 0;
	*ret_error = 0;
	while (at < own->lines.len && *ret_error == 0) {
		ssize_t n = write(own->fd, own->lines.ptr + at, own->lines.len - at);
		if (n > 0)
			at += (size_t)n;
		else if (n == 0)
			*ret_error = -EIO;
		else if (errno != EINTR)
			*ret_error = -errno;
	}
	return at;
}

/* Cuts the file back to `size`, if everything after it is ours. */
static bool cut_back(struct file_outlet *own, uint64_t size, size_t written)
{
	struct stat status;
	bool ours = fstat(own->fd, &status) == 0 && (uint64_t)status.st_size == own->size + written;
	return ours && ftruncate(own->fd, (off_t)size) == 0;
}

/* Bytes up to the end of the last event that was wholly written. */
static size_t whole_bytes(const struct outlet_attempt *first, const struct outlet_attempt *last,
                          size_t written)
{
	size_t whole = 0;
	for (; first != last && first->own <= written; first = first->next)
		whole = (size_t)first->own;
	return whole;
}

/* Opens the file of the batch, ready for a line. */
static struct failure prepare(struct file_outlet *own, uint64_t now_ms)
{
	struct file_path path;
	names_current(&own->names, now_ms, &path);
	int error = open_current(own, &path);
	if (error != 0)
		return (struct failure){ error, "opened" };
	if (must_rotate(own, own->lines.len, now_ms)) {
		struct file_path rotated;
		path = own->path;
		names_rotated(&path, now_ms, &rotated);
		error = rename(path.text, rotated.text) == 0 ? open_current(own, &path) : -errno;
		if (error != 0)
			return (struct failure){ error, "rotated" };
	}
	if (own->torn) { /* a reader must not join two lines */
		if (write(own->fd, "\n", 1) != 1)
			return (struct failure){ -errno, "written" };
		own->torn = false;
		own->size++;
	}
	return (struct failure){ 0, NULL };
}

struct batch {
	struct outlet_attempt *first, *last; /* last: the first that is not in it */
	size_t done;                         /* bytes of events that are done */
	bool unknown;                        /* whether the others were written */
	struct failure failure;
};

static void sync_batch(struct file_outlet *own, struct batch *batch)
{
	int error = fdatasync(own->fd) == 0 ? sync_folder(own) : -errno;
	if (error == 0)
		return;
	batch->failure = (struct failure){ error, "synced" };
	batch->unknown = !cut_back(own, own->size, batch->done);
	batch->done = 0;
	close_file(own);
}

static void write_batch(struct file_outlet *own, struct batch *batch)
{
	uint64_t now_ms = clock_read(own->clock).wall_ms;
	int error;
	batch->failure = prepare(own, now_ms);
	if (batch->failure.error != 0)
		return;
	size_t written = write_lines(own, &error);
	batch->done = whole_bytes(batch->first, batch->last, written);
	if (error != 0) {
		batch->failure = (struct failure){ error, "written" };
		own->torn = batch->done < written &&
		            !cut_back(own, own->size + batch->done, written);
	}
	if (!own->options.no_sync && batch->done > 0)
		sync_batch(own, batch);
	own->written_ms = now_ms;
	own->size += batch->done; /* is_same() notices any other size */
}

/* ---- the contract ---- */

static struct outlet_attempt *finish_batch(const struct file_outlet *own, struct batch *batch)
{
	char text[OUTLET_TEXT_MAX] = "";
	struct outlet_attempt *chain = batch->first;
	enum outlet_answer answer = batch->unknown ? OUTLET_UNKNOWN : OUTLET_NOT_SENT;
	if (batch->failure.error != 0)
		snprintf(text, sizeof(text), "%.128s cannot be %s: %s",
		         own->path.text[0] ? own->path.text : own->names.folder,
		         batch->failure.step, error_name(batch->failure.error));
	while (chain != batch->last)
		chain = chain->own <= batch->done ? outlet_finish(chain, OUTLET_DONE, SPAN_EMPTY)
		                                  : outlet_finish(chain, answer, span_str(text));
	return chain;
}

static void send_chain(struct outlet *base, struct outlet_attempt *chain)
{
	struct file_outlet *own = container_of(base, struct file_outlet, outlet);
	while (chain && !atomic_load(&own->interrupted)) {
		struct batch batch = { .first = chain };
		buf_clear(&own->lines);
		batch.last = outlet_append_events(&own->lines, chain, own->options.envelope,
		                                  BATCH_BYTES);
		if (batch.last == chain)
			chain = outlet_finish(chain, OUTLET_NOT_SENT,
			                      SPAN("no memory for its line"));
		if (batch.first != batch.last) {
			write_batch(own, &batch);
			chain = finish_batch(own, &batch);
		}
	}
	while (chain)
		chain = outlet_finish(chain, OUTLET_NOT_SENT, SPAN("interrupted"));
}

static void interrupt(struct outlet *base)
{
	struct file_outlet *own = container_of(base, struct file_outlet, outlet);
	atomic_store(&own->interrupted, true);
}

static void free_outlet(struct outlet *base)
{
	struct file_outlet *own = container_of(base, struct file_outlet, outlet);
	close_file(own);
	buf_free(&own->lines);
	mem_free(own);
}

static const struct outlet_methods methods = {
	.send = send_chain,
	.interrupt = interrupt,
	.free = free_outlet,
};

int file_outlet_check(const struct file_outlet_options *options, struct error_text *ret_text)
{
	struct file_names names;
	return names_init(&names, options->path, ret_text);
}

int file_outlet_new(const struct file_outlet_options *options, struct outlet **ret_outlet,
                    struct error_text *ret_text)
{
	struct file_outlet *own = mem_zalloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	int error = names_init(&own->names, options->path, ret_text);
	if (error != 0) {
		mem_free(own);
		return error;
	}
	own->outlet =
		(struct outlet){ .methods = &methods, .batch_max = UINT32_MAX, .immediate = true };
	own->options = *options;
	own->options.path = SPAN_EMPTY;
	own->clock = options->clock ? options->clock : clock_system();
	own->fd = -1;
	*ret_outlet = &own->outlet;
	return 0;
}
