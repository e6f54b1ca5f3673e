/*
 * exit_code: what stile's exit codes mean. They are documented in
 * docs/reference.md and never change their meaning.
 *
 * Room: base.
 */
#pragma once

enum exit_code {
	EXIT_CODE_OK = 0,
	EXIT_CODE_FAILED = 1,  /* could not do it: the message says why */
	EXIT_CODE_USAGE = 2,   /* unknown option, bad value */
	EXIT_CODE_DAMAGED = 3, /* stored data is damaged; filter --strict: events are */
};
