/* command: see command.h. */
#include "config/command.h"

#include "base/exit_code.h"

int command_usage_error(const char *command, const char *text)
{
	fprintf(stderr, "stile%s%s: %s\ntry: stile help%s%s\n", command ? " " : "",
	        command ? command : "", text, command ? " " : "", command ? command : "");
	return EXIT_CODE_USAGE;
}
