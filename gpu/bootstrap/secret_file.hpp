// The run's secret in files that only their owner can read: one that the user names, or one that rank 0 makes for the
// other ranks of its host. Used by session_thread.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "gpu/bootstrap/descriptor.hpp"

namespace foreshard::gpu {

/// The file's bytes without the end of line behind them. Errors: `input`, for a file that is not this user's, that
/// others can read or write, or that has not kMinSecretBytes to kMaxSecretBytes.
[[nodiscard]] Result<std::string> read_secret_file(const std::string& path);

/// A random secret for the ranks of one host and user that were given none, where rank 0 listens on `port`. Its file
/// lies in the folder `foreshard` of `runtime_folder` (XDG_RUNTIME_DIR) where that is this user's alone, else in
/// /tmp/foreshard-UID, and is named after the port and the network name space. The folder must be this user's, closed
/// to others, and no link; else an Error of kind `rendezvous`.
class HostSecret {
 public:
  /// Rank 0, which holds the port: writes the file, over what a run that was killed has left there.
  [[nodiscard]] static Result<HostSecret> publish(const std::string& runtime_folder, std::uint16_t port,
                                                  std::string_view secret);
  /// The other ranks, once rank 0 has answered them.
  [[nodiscard]] static Result<std::string> find(const std::string& runtime_folder, std::uint16_t port);

  HostSecret(HostSecret&& other) noexcept = default;
  HostSecret& operator=(HostSecret&&) = delete;
  /// Removes the file.
  ~HostSecret();

 private:
  HostSecret(OwnedDescriptor folder, std::string name) : folder_(std::move(folder)), name_(std::move(name)) {}

  OwnedDescriptor folder_;  ///< none: moved from
  std::string name_;
};

}  // namespace foreshard::gpu
