// A failed assertion ends the launch with a message that names the thread. No include guard, as the C standard says.
#undef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
#define assert(condition) \
    ((condition) ? static_cast<void>(0) : ::host::assertion_failed(#condition, __FILE__, __LINE__))
#endif
