// Checks for programmer errors. Never on external data: that is a Status.
//
//   PERGOLA_CHECK(x)   always on; prints the expression and its place, then aborts.
//   PERGOLA_DCHECK(x)  on unless NDEBUG (tests and sanitizers run with it); documents an invariant.
//   kAddressSanitizer  whether reads beyond an allocation are seen: then nothing should share one.
#pragma once

namespace pergola::internal {
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);
}  // namespace pergola::internal

#define PERGOLA_CHECK(condition) \
  (static_cast<bool>(condition)  \
       ? static_cast<void>(0)    \
       : ::pergola::internal::CheckFailed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define PERGOLA_DCHECK(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define PERGOLA_DCHECK(condition) PERGOLA_CHECK(condition)
#endif

namespace pergola {
#if defined(__SANITIZE_ADDRESS__)  // g++
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)  // clang
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif
}  // namespace pergola
