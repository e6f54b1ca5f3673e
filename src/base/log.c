/* log: see log.h. */
#include "base/log.h"

#include <poll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"

/* Kept free at the end of every line for the closing fields. */
#define TAIL_ROOM 96

static struct log_options options = {
	.format = LOG_TEXT,
	.level = LOG_LEVEL_INFO,
	.fd = STDERR_FILENO,
};

void log_setup(const struct log_options *given)
{
	CHECK(given->fd >= 0);
	options = *given;
}

bool log_wants(enum log_level level)
{
	return level >= options.level;
}

struct log_field log_code(int error)
{
	return log_str("error", error_name(error));
}

static const char *const level_names[] = { "debug", "info", "warn", "error" };

/* May this site write now? If so, ret_left_out is the number of lines that it suppressed since
 * it last wrote. Racing threads may write one line too many. */
static bool site_may_write(struct log_site *site, uint64_t now_ms, uint32_t *ret_left_out)
{
	uint64_t began = atomic_load_explicit(&site->window_ms, memory_order_relaxed);
	if (now_ms - began >= LOG_WINDOW_MS) {
		atomic_store_explicit(&site->window_ms, now_ms, memory_order_relaxed);
		atomic_store_explicit(&site->written, 0, memory_order_relaxed);
	}
	if (atomic_fetch_add_explicit(&site->written, 1, memory_order_relaxed) >= LOG_BURST) {
		atomic_fetch_add_explicit(&site->suppressed, 1, memory_order_relaxed);
		return false;
	}
	*ret_left_out = (uint32_t)atomic_exchange_explicit(&site->suppressed, 0,
	                                                   memory_order_relaxed);
	return true;
}

static bool is_bare(struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		            (c >= '0' && c <= '9');
		if (!word && !memchr("-_./:+@,[]", c, 10))
			return false;
	}
	return text.len > 0;
}

/* Appends the whole field or nothing of it. */
static bool append_field(struct buf *line, const struct log_field *field)
{
	size_t before = line->len;
	if (options.format == LOG_TEXT) {
		if (line->len > 0)
			buf_append_char(line, ' ');
		buf_append_span(line, span_str(field->key));
		buf_append_char(line, '=');
	} else {
		buf_append_char(line, line->len > 0 ? ',' : '{');
		buf_append_json(line, span_str(field->key));
		buf_append_char(line, ':');
	}
	struct span text = field->text;
	switch (field->kind) {
	case LOG_KIND_SPAN:
		if (text.len > LOG_VALUE_MAX)
			text.len = LOG_VALUE_MAX;
		/* Text leaves out the quotes where a value is one harmless word. */
		if (options.format == LOG_TEXT && is_bare(text))
			buf_append_span(line, text);
		else
			buf_append_json(line, text);
		break;
	case LOG_KIND_U64: buf_append_u64(line, field->number); break;
	case LOG_KIND_BOOL:
		buf_append_span(line, field->number ? SPAN("true") : SPAN("false"));
		break;
	case LOG_KIND_END: break;
	}
	if (!line->failed)
		return field->text.len <= LOG_VALUE_MAX;
	line->len = before;
	line->failed = 0;
	return false;
}

/* Never blocks: what a full pipe does not accept is lost. A pipe that poll() reports as
 * writable accepts LOG_LINE_MAX bytes (PIPE_BUF) without blocking. */
static bool give(struct span text)
{
	struct pollfd out = { .fd = options.fd, .events = POLLOUT };
	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
		return false;
	return write(options.fd, text.ptr, text.len) >= 0;
}

void log_write(struct log_site *site, enum log_level level, const char *message,
               const struct log_field *fields)
{
	uint64_t now_ms = 0;
	uint32_t left_out = 0;
	struct log_field field;
	if (options.now_ms) {
		now_ms = options.now_ms();
		if (!site_may_write(site, now_ms, &left_out))
			return;
	}
	char memory[LOG_LINE_MAX];
	struct buf line = buf_on(memory, sizeof(memory) - TAIL_ROOM);
	if (options.now_ms) {
		char time[TEXT_TIME_LEN];
		text_time(time, now_ms);
		field = log_span("time", span_of(time, sizeof(time)));
		append_field(&line, &field);
	}
	field = log_str("level", level_names[level]);
	append_field(&line, &field);
	field = log_str("msg", message);
	append_field(&line, &field);
	bool whole = true;
	for (; fields->kind != LOG_KIND_END; fields++)
		whole &= append_field(&line, fields);
	line.room = line.cap = sizeof(memory);
	field = log_u64("suppressed", left_out);
	if (left_out > 0)
		append_field(&line, &field);
	field = log_bool("truncated", true);
	if (!whole)
		append_field(&line, &field);
	buf_append_span(&line, options.format == LOG_JSON ? SPAN("}\n") : SPAN("\n"));
	if (!give(buf_span(&line)))
		atomic_fetch_add_explicit(&site->suppressed, left_out + 1, memory_order_relaxed);
}

void log_plain(struct span text)
{
	give(text);
}
