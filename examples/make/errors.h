/* Generated from errors.txt: edit that. */
static const char *error_message(int code)
{
    switch (code) {
    case 1: return "NOT_FOUND: the file does not exist";
    case 2: return "DENIED: the policy denies it";
    case 3: return "TOO_LARGE: the file exceeds the limit";
    default: return "unknown error";
    }
}
