/* file_names: see file_names.h. */
#include "sink/file_names.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

#define DATE "{date}"
#define DATE_LEN 10u  /* 2026-01-31 */
#define STAMP_LEN 20u /* 20260131T235959.999Z */

static int copy(char ret_text[static FILE_PATH_MAX], struct span text)
{
	if (text.len >= FILE_PATH_MAX - DATE_LEN - STAMP_LEN - 4)
		return ERR_TOO_LARGE;
	memcpy(ret_text, text.ptr, text.len);
	ret_text[text.len] = '\0';
	return 0;
}

static void split_date(struct file_names *names, const char *name)
{
	const char *date = strstr(name, DATE);
	size_t len = date ? (size_t)(date - name) : strlen(name);
	names->dated = date;
	memcpy(names->before, name, len);
	names->before[len] = '\0';
	snprintf(names->behind, sizeof(names->behind), "%s", date ? date + strlen(DATE) : "");
}

int file_names_init(struct file_names *ret_names, struct span path, struct error_text *ret_text)
{
	char text[FILE_PATH_MAX];
	if (path.len == 0 || memchr(path.ptr, '\0', path.len) || copy(text, path) != 0)
		return error_fill(ret_text, ERR_CONFIG, "path: expected 1 to %u bytes",
		                  FILE_PATH_MAX - DATE_LEN - STAMP_LEN - 5);
	char *slash = strrchr(text, '/');
	const char *name = slash ? slash + 1 : text;
	if (name[0] == '\0')
		return error_fill(ret_text, ERR_CONFIG, "path: is a folder, expected a file");
	split_date(ret_names, name);
	if (strstr(ret_names->behind, DATE))
		return error_fill(ret_text, ERR_CONFIG, "path: has {date} twice");
	if (slash == text)
		slash++; /* the root keeps its name */
	snprintf(ret_names->folder, sizeof(ret_names->folder), "%.*s",
	         slash ? (int)(slash - text) : 1, slash ? text : ".");
	if (strstr(ret_names->folder, DATE))
		return error_fill(ret_text, ERR_CONFIG,
		                  "path: {date} can be in the name of the file alone");
	return 0;
}

void file_names_current(const struct file_names *names, uint64_t now_ms, struct file_path *ret_path)
{
	char time[TEXT_TIME_LEN];
	text_time(time, now_ms);
	int len = snprintf(ret_path->text, sizeof(ret_path->text), "%s/%s%.*s%s", names->folder,
	                   names->before, names->dated ? (int)DATE_LEN : 0, time, names->behind);
	CHECK(len > 0 && (size_t)len < sizeof(ret_path->text));
}

/* The time without what is not wanted in a file's name. */
static void put_stamp(char ret_stamp[static STAMP_LEN + 1], uint64_t now_ms)
{
	char time[TEXT_TIME_LEN];
	size_t len = 0;
	text_time(time, now_ms);
	for (size_t i = 0; i < TEXT_TIME_LEN; i++)
		if (time[i] != '-' && time[i] != ':')
			ret_stamp[len++] = time[i];
	CHECK(len == STAMP_LEN);
	ret_stamp[len] = '\0';
}

void file_names_rotated(const struct file_path *current, uint64_t now_ms,
                        struct file_path *ret_path)
{
	char stamp[STAMP_LEN + 1];
	do {
		put_stamp(stamp, now_ms++);
		int len = snprintf(ret_path->text, sizeof(ret_path->text), "%s.%s", current->text,
		                   stamp);
		CHECK(len > 0 && (size_t)len < sizeof(ret_path->text));
	} while (access(ret_path->text, F_OK) == 0);
}

/* ---- which are old ---- */

/* Digits for 0; any other character for itself. */
static bool has_form(const char *text, const char *form)
{
	for (; *form; form++, text++)
		if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
			return false;
	return true;
}

/* What files are sorted by: their day, then when they were renamed; the one that was not
 * is the last of its day. */
struct old_file {
	char *name;
	const char *date; /* in name, or "" */
	const char *stamp;
};

static bool read_name(const struct file_names *names, char *name, struct old_file *ret_file)
{
	size_t before = strlen(names->before);
	size_t behind = strlen(names->behind);
	const char *at = name;
	if (strncmp(at, names->before, before) != 0)
		return false;
	at += before;
	const char *date = at;
	if (names->dated && !has_form(at, "0000-00-00"))
		return false;
	at += names->dated ? DATE_LEN : 0;
	if (strncmp(at, names->behind, behind) != 0)
		return false;
	at += behind;
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

static int list_old(const struct file_names *names, const char *current, struct old_files *files)
{
	DIR *folder = opendir(names->folder);
	if (!folder)
		return -errno;
	int error = 0;
	for (const struct dirent *entry; error == 0 && (entry = readdir(folder)) != NULL;)
		if (strcmp(entry->d_name, current) != 0)
			error = add_old(files, names, entry->d_name);
	closedir(folder);
	return error;
}

int file_names_remove_old(const struct file_names *names, const struct file_path *current,
                          uint32_t keep)
{
	struct old_files files = { 0 };
	int error = list_old(names, current->text + strlen(names->folder) + 1, &files);
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
