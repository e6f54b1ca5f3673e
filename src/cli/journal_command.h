/*
 * journal_command: `stile journal verify DIR` and `stile journal dump DIR`.
 *
 * Room: cli. Returns the exit code: 0 sound, 1 unreadable or in use, 2 usage,
 * 3 damaged.
 */
#pragma once

int journal_command(int argc, char **argv);
