/* json without vector instructions, as other machines build it: the same tests. */
#define JSON_PORTABLE 1
#define json_scan json_scan_portable
#define json_elements_begin json_elements_begin_portable
#define json_elements_next json_elements_next_portable
#define json_marks_fill json_marks_fill_portable
#define json_decode json_decode_portable
#define json_compact json_compact_portable
#define json_member_next json_member_next_portable
#define json_type_name json_type_name_portable
#include "../../src/codec/json.c"
#include "../../src/codec/json_marks.c"
#include "../../src/codec/json_text.c"

#include "test_json.c"
