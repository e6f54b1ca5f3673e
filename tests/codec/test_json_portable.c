/* json without vector instructions, as other machines build it: the same tests. */
#define JSON_PORTABLE 1
#define json_scan json_scan_portable
#define json_elements_begin json_elements_begin_portable
#define json_elements_next json_elements_next_portable
#include "../../src/codec/json.c"

#include "test_json.c"
