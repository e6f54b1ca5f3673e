/* file_outlet: see file_outlet.h. What files are called is file_names.c's. */
#include "sink/file_outlet.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "sink/file_names.h"
#include "sink/outlet_line.h"

#define BATCH_BYTES (1u << 20)

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

/* What came of the step that failed, for people. */
struct failure {
	int error;
	const char *step;
};

static void close_file(struct file_outlet *own)
{
	if (own->fd >= 0)
		close(own->fd);
	own->fd = -1;
}

/* ---- the file ---- */

static bool ends_torn(int fd, off_t size)
{
	char last = '\n';
	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

static uint64_t modified_ms(const struct stat *status)
{
	int64_t ms = (int64_t)status->st_mtim.tv_sec * 1000 + status->st_mtim.tv_nsec / 1000000;
	return ms > 0 ? (uint64_t)ms : 0;
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
	own->written_ms = modified_ms(&status);
	own->torn = ends_torn(own->fd, status.st_size);
	own->folder_synced = false;
	return 0;
}

/* Is the open file still the one that the path leads to? Sets what may have changed. */
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

static void remove_old(struct file_outlet *own)
{
	int error = own->options.keep > 0
	                    ? file_names_remove_old(&own->names, &own->path, own->options.keep)
	                    : 0;
	if (error != 0)
		log_warn("old files of a sink cannot be removed",
		         log_str("folder", own->names.folder), log_code(error));
}

static int open_current(struct file_outlet *own, const struct file_path *path)
{
	if (is_same(own, path))
		return 0;
	close_file(own);
	int error = open_file(own, path);
	if (error == 0 && own->size == 0)
		remove_old(own);
	return error;
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

static int rotate(struct file_outlet *own, uint64_t now_ms)
{
	struct file_path current = own->path;
	struct file_path rotated;
	file_names_rotated(&current, now_ms, &rotated);
	if (rename(current.text, rotated.text) != 0)
		return -errno;
	return open_current(own, &current);
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

/* Cuts off what stands behind `size`, if that is ours alone. */
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

/* Fills the batch from `first` on and returns the first that is not in it. */
static struct outlet_attempt *fill_batch(struct file_outlet *own, struct outlet_attempt *first)
{
	buf_clear(&own->lines);
	return outlet_append_events(&own->lines, first, own->options.envelope, BATCH_BYTES);
}

/* The file that the batch goes to, ready for a line. */
static struct failure prepare(struct file_outlet *own, uint64_t now_ms)
{
	struct file_path path;
	file_names_current(&own->names, now_ms, &path);
	int error = open_current(own, &path);
	if (error != 0)
		return (struct failure){ error, "opened" };
	if (must_rotate(own, own->lines.len, now_ms)) {
		error = rotate(own, now_ms);
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
	own->size += batch->done; /* another size is seen with the next batch */
}

/* ---- the contract ---- */

static void put_text(const struct file_outlet *own, const struct failure *failure,
                     char ret_text[static OUTLET_TEXT_MAX])
{
	const char *name = own->path.text[0] ? own->path.text : own->names.folder;
	snprintf(ret_text, OUTLET_TEXT_MAX, "%.128s cannot be %s: %s", name, failure->step,
	         error_name(failure->error));
}

static struct outlet_attempt *tell_batch(const struct file_outlet *own, struct batch *batch)
{
	char text[OUTLET_TEXT_MAX] = "";
	struct outlet_attempt *chain = batch->first;
	enum outlet_answer answer = batch->unknown ? OUTLET_UNKNOWN : OUTLET_NOT_SENT;
	if (batch->failure.error != 0)
		put_text(own, &batch->failure, text);
	while (chain != batch->last)
		chain = chain->own <= batch->done ? outlet_tell(chain, OUTLET_DONE, SPAN_EMPTY)
		                                  : outlet_tell(chain, answer, span_str(text));
	return chain;
}

static void send_chain(struct outlet *base, struct outlet_attempt *chain)
{
	struct file_outlet *own = container_of(base, struct file_outlet, outlet);
	while (chain && !atomic_load(&own->interrupted)) {
		struct batch batch = { .first = chain, .last = fill_batch(own, chain) };
		if (batch.last == chain)
			chain = outlet_tell(chain, OUTLET_NOT_SENT, SPAN("no memory for its line"));
		if (batch.first != batch.last) {
			write_batch(own, &batch);
			chain = tell_batch(own, &batch);
		}
	}
	while (chain)
		chain = outlet_tell(chain, OUTLET_NOT_SENT, SPAN("interrupted"));
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
	return file_names_init(&names, options->path, ret_text);
}

int file_outlet_new(const struct file_outlet_options *options, struct outlet **ret_outlet,
                    struct error_text *ret_text)
{
	struct file_outlet *own = mem_zalloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	int error = file_names_init(&own->names, options->path, ret_text);
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
