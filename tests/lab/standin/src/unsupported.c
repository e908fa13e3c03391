/* Every other symbol that the official binding can call: it is there, and the hardware cannot do it. */
#include "standin.h"

static nvmlReturn_t unsupported(const char *function, int *slot, const void *first)
{
    Call call;
    nvmlReturn_t result = devices_index(first) >= 0 ? enter_device(&call, function, slot, first)
                                                    : enter_system(&call, function, slot);
    return result == SUCCESS ? answer(NOT_SUPPORTED) : result;
}

#define UNSUPPORTED(function)                                                      \
    nvmlReturn_t function(const void *first)                                       \
    {                                                                              \
        static int slot = -1;                                                      \
        return unsupported(__func__, &slot, first);                                \
    }

#include "unsupported.h"
