/* read_ahead: see read_ahead.h. */
#include "store/local/journal/read_ahead.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/local/journal/format.h"
#include "sys/errand.h"

struct read_ahead {
	struct file_system *fs;
	struct errand errand;
	unsigned char *piece;
	/* what is asked for, or was; len 0: nothing */
	int fd;
	size_t len;
	uint64_t offset;
	int64_t got; /* as read() says */
};

static void read_piece(void *user)
{
	struct read_ahead *ahead = user;

	ahead->got = ahead->fs->methods->read(ahead->fs, ahead->fd, ahead->piece, ahead->len,
	                                      ahead->offset);
}

int read_ahead_new(struct file_system *fs, struct read_ahead **ret_ahead)
{
	struct read_ahead *ahead = mem_zalloc(1, sizeof(*ahead));

	if (!ahead)
		return -ENOMEM;
	ahead->fs = fs;
	ahead->piece = mem_aligned(FORMAT_BLOCK, READ_AHEAD_PIECE);
	int r = ahead->piece ? errand_init(&ahead->errand, "stile-ahead") : -ENOMEM;
	if (r < 0) {
		mem_free(ahead->piece);
		mem_free(ahead);
		return r;
	}
	*ret_ahead = ahead;
	return 0;
}

void read_ahead_drop(struct read_ahead *ahead)
{
	if (ahead->len > 0)
		errand_wait(&ahead->errand);
	ahead->len = 0;
}

struct read_ahead *read_ahead_free(struct read_ahead *ahead)
{
	if (!ahead)
		return NULL;
	read_ahead_drop(ahead);
	errand_end(&ahead->errand);
	mem_free(ahead->piece);
	return mem_free(ahead);
}

/* The beginning of what is wanted, if that was asked for. */
static int64_t take_piece(struct read_ahead *ahead, int fd, void *ptr, size_t len, uint64_t offset)
{
	bool hit = ahead->len > 0 && ahead->fd == fd && ahead->offset == offset;

	read_ahead_drop(ahead);
	if (!hit || ahead->got <= 0)
		return hit ? ahead->got : 0;
	size_t n = (size_t)ahead->got < len ? (size_t)ahead->got : len;
	memcpy(ptr, ahead->piece, n);
	return (int64_t)n;
}

static void ask(struct read_ahead *ahead, int fd, uint64_t offset, size_t len)
{
	if (len == 0)
		return;
	ahead->fd = fd;
	ahead->offset = offset;
	ahead->len = len < READ_AHEAD_PIECE ? len : READ_AHEAD_PIECE;
	errand_start(&ahead->errand, &(struct errand_job){ .run = read_piece, .user = ahead });
}

int64_t read_ahead_read(struct read_ahead *ahead, int fd, void *ptr, size_t len, uint64_t offset,
                        size_t next)
{
	int64_t n = take_piece(ahead, fd, ptr, len, offset);

	/* Only whole blocks count, so that the rest can be read from where they end. */
	size_t had = n < 0 ? 0 : (size_t)n / FORMAT_BLOCK * FORMAT_BLOCK;
	if (n < 0 || (had < (size_t)n && had < len))
		return n;
	if (had < len) {
		int64_t rest = ahead->fs->methods->read(ahead->fs, fd, (char *)ptr + had, len - had,
		                                        offset + had);
		if (rest < 0)
			return rest;
		n += rest;
	}
	if (n == (int64_t)len)
		ask(ahead, fd, offset + len, next);
	return n;
}
