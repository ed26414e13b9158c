// Errors as values: what every fallible function of Pergola returns.
//
//   Result<Engine> engine = Engine::Open("all-MiniLM-L6-v2", {});
//   if (!engine.ok()) return engine.status();
//   Use(*engine);
//
// The codes are the gRPC codes, so one Status crosses the library, HTTP and gRPC unchanged. A
// message names the thing, the value and the limit; it is valid UTF-8 and safe to show to a user.
// Not an exception in disguise: the library never throws, prints, exits or aborts on input.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace pergola {

// Numbers and meaning of google.rpc.Code.
enum class StatusCode {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number outside the enum.
std::string_view StatusCodeName(StatusCode code);

// Thread-compatible value. A default-constructed Status is OK and allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "INVALID_ARGUMENT: tensor 'x': ..." or "OK".
  std::string ToString() const;

  // The same code with `context` and ": " put before the message; OK stays OK.
  Status WithContext(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
Status CancelledError(std::string message);
Status InvalidArgumentError(std::string message);
Status DeadlineExceededError(std::string message);
Status NotFoundError(std::string message);
Status AlreadyExistsError(std::string message);
Status ResourceExhaustedError(std::string message);
Status FailedPreconditionError(std::string message);
Status OutOfRangeError(std::string message);
Status UnimplementedError(std::string message);
Status InternalError(std::string message);
Status UnavailableError(std::string message);
Status DataLossError(std::string message);
Status UnauthenticatedError(std::string message);
Status PermissionDeniedError(std::string message);
Status AbortedError(std::string message);

// A T or the Status that says why there is none. Thread-compatible.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that `return value;` and `return InvalidArgumentError(...);` both work.
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {
    assert(!std::get<0>(state_).ok() && "a Result without a value needs an error");
  }

  bool ok() const { return state_.index() == 1; }

  // OK when a value is held.
  Status status() const& { return ok() ? Status() : std::get<0>(state_); }
  Status status() && { return ok() ? Status() : std::move(std::get<0>(state_)); }

  // Only when ok().
  T& value() & { return *std::get_if<1>(&state_); }
  const T& value() const& { return *std::get_if<1>(&state_); }
  T&& value() && { return std::move(*std::get_if<1>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return std::get_if<1>(&state_); }
  const T* operator->() const { return std::get_if<1>(&state_); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace pergola

// Leaves the enclosing function with the error of `expression`, a Status.
#define PERGOLA_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    ::pergola::Status pergola_status_ = (expression);  \
    if (!pergola_status_.ok()) return pergola_status_; \
  } while (false)

#define PERGOLA_CONCAT_INNER_(a, b) a##b
#define PERGOLA_CONCAT_(a, b) PERGOLA_CONCAT_INNER_(a, b)

// `PERGOLA_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));`
#define PERGOLA_ASSIGN_OR_RETURN(declaration, expression)                                 \
  PERGOLA_ASSIGN_OR_RETURN_IMPL_(PERGOLA_CONCAT_(pergola_result_, __LINE__), declaration, \
                                 expression)
#define PERGOLA_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return std::move(result).status();                  \
  declaration = std::move(result).value()
