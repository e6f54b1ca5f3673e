/* error: see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *error_name(int error)
{
	switch (error) {
	case 0: return "no error";
	case ERR_DAMAGED: return "damaged data";
	case ERR_POISONED: return "an earlier sync failed";
	case ERR_FULL: return "no room now";
	case ERR_BUSY: return "in use";
	case ERR_INVALID: return "malformed";
	case ERR_TOO_LARGE: return "too large";
	case ERR_VERSION: return "unknown format version";
	case ERR_FENCED: return "attempt no longer current";
	case ERR_CLOSING: return "shutting down";
	case ERR_CONFIG: return "bad configuration";
	case ERR_AWAY: return "not to be reached";
	case ERR_KIND: return "not a regular file";
	default: break;
	}
	if (error < 0 && error >= -4095) {
		const char *name = strerrordesc_np(-error);
		if (name)
			return name;
	}
	return "unknown error";
}

int error_fill(struct error_text *text, int error, const char *format, ...)
{
	if (text) {
		va_list args;
		va_start(args, format);
		vsnprintf(text->text, sizeof(text->text), format, args);
		va_end(args);
	}
	return error;
}
