/* A DLL that Wine 8 lacks, with the one function that Rust's standard library takes random bytes from. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL ProcessPrng(PUCHAR data, SIZE_T length)
{
    return RtlGenRandom(data, (ULONG)length);
}
