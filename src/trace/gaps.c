/* gaps: see gaps.h. */
#include "trace/gaps.h"

#include <stddef.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "trace/sampler.h"

#define MAGIC UINT64_C(0x706167656c697473) /* "stilegap" */
#define FILE_MAX (32u << 20)
#define PATH_LEN_MAX 4096

struct gaps_head {
	uint64_t magic;
	uint64_t check;
	uint64_t from;
};

#define CHECKED_FROM offsetof(struct gaps_head, from)

/* NULL: too many sources, or no memory. */
static struct trace_source *source_of(struct trace_gaps *gaps, struct span name)
{
	uint32_t count = atomic_load_explicit(&gaps->count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++) {
		struct trace_source *source = gaps->sources[i];
		if (span_eq(name, span_of(source->name, source->name_len)))
			return source;
	}
	if (name.len == 0 || name.len > TRACE_SOURCE_MAX)
		return NULL;
	if (count == TRACE_SOURCES_MAX) {
		if (!gaps->left_out)
			log_warn("too many sources: stile advise has no data for this one",
			         log_span("source", name), log_u64("limit", TRACE_SOURCES_MAX));
		gaps->left_out = true;
		return NULL;
	}
	struct trace_source *source = mem_zalloc(1, sizeof(*source));
	if (!source)
		return NULL;
	source->name_len = (uint8_t)name.len;
	memcpy(source->name, name.ptr, name.len);
	gaps->sources[count] = source;
	atomic_store_explicit(&gaps->count, count + 1, memory_order_release);
	return source;
}

bool trace_gaps_add(struct trace_gaps *gaps, const struct trace *trace, uint64_t *ret_before)
{
	struct trace_source *source = source_of(gaps, trace->source);
	if (!source)
		return false;
	uint8_t sample = trace->sample < TRACE_SAMPLE_MAX ? trace->sample : TRACE_SAMPLE_MAX;
	if (trace->verdict == VERDICT_DUPLICATE)
		gap_duplicate(&source->gap, trace->gap_ms, trace->time_ms, UINT64_C(1) << sample);
	if (!trace_passed(trace) || trace->verdict != VERDICT_NEW)
		return false;
	bool returned = false;
	for (uint8_t i = 0; i < trace->claim_count; i++) {
		struct gap_passage passage = {
			.word = trace->claims[i].word,
			.window_s = trace->claims[i].window_s,
			.ticket = trace->ticket,
		};
		uint64_t before = 0;
		if (gap_passed(&source->gap, passage, &before) && !returned) {
			*ret_before = before;
			returned = true;
		}
	}
	return returned;
}

static int load_bytes(struct trace_gaps *gaps, struct span bytes)
{
	struct gaps_head head;
	if (bytes.len < sizeof(head))
		return ERR_DAMAGED;
	memcpy(&head, bytes.ptr, sizeof(head));
	if (head.magic != MAGIC ||
	    head.check != hash_checksum64(bytes.ptr + CHECKED_FROM, bytes.len - CHECKED_FROM, 0))
		return ERR_DAMAGED;
	bytes = span_skip(bytes, sizeof(head));
	while (bytes.len > 0) {
		uint8_t name_len = (uint8_t)bytes.ptr[0];
		uint32_t gap_len = 0;
		if (name_len == 0 || name_len > TRACE_SOURCE_MAX || bytes.len < 5u + name_len)
			return ERR_DAMAGED;
		memcpy(&gap_len, bytes.ptr + 1, sizeof(gap_len));
		struct span name = span_of(bytes.ptr + 5, name_len);
		bytes = span_skip(bytes, 5u + name_len);
		if (gap_len > bytes.len)
			return ERR_DAMAGED;
		struct trace_source *source = source_of(gaps, name);
		if (!source)
			return gaps->count == TRACE_SOURCES_MAX ? ERR_DAMAGED : -ENOMEM;
		if (gap_read(&source->gap, span_of(bytes.ptr, gap_len)) < 0)
			return ERR_DAMAGED;
		bytes = span_skip(bytes, gap_len);
	}
	gaps->from = head.from;
	return 0;
}

int trace_gaps_load(struct trace_gaps *gaps, struct file_system *fs, const char *folder)
{
	char path[PATH_LEN_MAX];
	cleanup_free char *bytes = NULL;
	size_t len = 0;
	snprintf(path, sizeof(path), "%s/gaps", folder);
	int r = file_read_regular(fs, path, FILE_MAX, &bytes, &len);
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = load_bytes(gaps, span_of(bytes, len));
	if (r < 0)
		trace_gaps_free(gaps);
	else
		gaps->file_bytes = len;
	return r;
}

int trace_gaps_save(struct trace_gaps *gaps, struct file_system *fs, const char *folder,
                    uint64_t from)
{
	struct gaps_head head = { .magic = MAGIC, .from = from };
	struct buf out = { .cap = FILE_MAX };
	char path[PATH_LEN_MAX], new_path[PATH_LEN_MAX];
	buf_append(&out, &head, sizeof(head));
	uint32_t count = atomic_load_explicit(&gaps->count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++) {
		const struct trace_source *source = gaps->sources[i];
		size_t start = out.len;
		buf_append(&out, &source->name_len, 1);
		buf_append(&out, &(uint32_t){ 0 }, sizeof(uint32_t));
		buf_append(&out, source->name, source->name_len);
		size_t gap_start = out.len;
		gap_write(&source->gap, &out);
		uint32_t gap_len = (uint32_t)(out.len - gap_start);
		if (!out.failed)
			memcpy(out.ptr + start + 1, &gap_len, sizeof(gap_len));
	}
	int fd = -1;
	int r = out.failed;
	if (r == 0) {
		head.check = hash_checksum64(out.ptr + CHECKED_FROM, out.len - CHECKED_FROM, 0);
		memcpy(out.ptr, &head, sizeof(head));
		snprintf(path, sizeof(path), "%s/gaps", folder);
		snprintf(new_path, sizeof(new_path), "%s/gaps.tmp", folder);
		r = fs->methods->open(fs, new_path, FILE_WRITE | FILE_CREATE | FILE_REGULAR, &fd);
	}
	if (r == 0) {
		r = fs->methods->truncate(fs, fd, 0);
		if (r == 0)
			r = fs->methods->write(fs, fd, out.ptr, out.len, 0);
		if (r == 0)
			r = fs->methods->sync_data(fs, fd);
		fs->methods->close(fs, fd);
	}
	if (r == 0)
		r = fs->methods->rename(fs, new_path, path);
	if (r == 0)
		r = fs->methods->sync_dir(fs, folder);
	if (r == 0) {
		gaps->file_bytes = out.len;
		gaps->from = from;
	}
	buf_free(&out);
	return r;
}

void trace_gaps_free(struct trace_gaps *gaps)
{
	uint32_t count = atomic_load(&gaps->count);
	for (uint32_t i = 0; i < count; i++)
		mem_free(gaps->sources[i]);
	*gaps = (struct trace_gaps){ .count = 0 };
}
