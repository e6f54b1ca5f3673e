/*
 * find: the answer to one question, from the files of a folder.
 *
 * One pass over the files, the newest first. Of a full file only the filter is read when no
 * record of it can have a term. The files may grow or be deleted meanwhile: a record whose
 * write is under way is not valid yet, and a deleted file has no records.
 *
 * Room: trace. Threads: any; uses nothing but the folder. Memory: one file at a time.
 * Failure: as trace_log_find(). A file that cannot be read is skipped.
 */
#pragma once

#include "sys/file.h"
#include "trace/trace_log.h"

int trace_find(struct file_system *fs, const char *folder, const struct trace_query *query,
               int (*each)(void *user, uint32_t term, const struct trace *trace),
               void *user) must_check;
