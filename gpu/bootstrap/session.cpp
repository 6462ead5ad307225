#include "gpu/bootstrap/session.hpp"

#include <utility>

#include "gpu/bootstrap/local_sockets.hpp"
#include "gpu/bootstrap/session_thread.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::size_t kMaxSettingsBytes = 1 << 20;

Result<void> check(const SessionOptions& options) {
  std::size_t bytes = 0;
  for (const Setting& setting : options.settings) bytes += setting.key.size() + setting.value.size() + 16;
  if (bytes > kMaxSettingsBytes)
    return fail(ErrorKind::usage, "the settings that the ranks compare are more than 1 MiB", {},
                "compare digests of large files");
  return {};
}

}  // namespace

class Session::Impl final : public Bootstrap {
 public:
  explicit Impl(SessionOptions options) : thread(std::move(options)) {}

  [[nodiscard]] std::uint32_t rank() const override { return environment().rank; }
  [[nodiscard]] std::uint32_t ranks() const override { return environment().ranks; }
  [[nodiscard]] std::uint32_t local_rank() const override { return environment().local_rank; }
  [[nodiscard]] std::uint32_t local_ranks() const override { return environment().local_ranks; }

  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view what, std::string_view bytes) override {
    return thread.gather(what, bytes);
  }

  [[nodiscard]] Result<void> barrier(std::string_view what) override {
    const auto met = thread.gather(what, {});
    FORESHARD_TRY(met);
    return {};
  }

  [[nodiscard]] Result<std::vector<int>> share_descriptor(std::string_view what, int descriptor) override {
    if (!sockets_) FORESHARD_TRY(connect_host());
    // Through the rendezvous first: whoever does not come, or asks for something else, is named there.
    FORESHARD_TRY(barrier(what));
    auto descriptors = sockets_->bootstrap(descriptor);
    if (!descriptors) return tl::unexpected(thread.fail_run(descriptors.error()));
    return descriptors;
  }

  [[nodiscard]] const Environment& environment() const { return thread.options().environment; }

  SessionThread thread;

 private:
  Result<void> connect_host() {
    const Environment& e = environment();
    auto sockets =
        std::make_unique<LocalSockets>(e.local_rank, e.local_ranks, thread.options().timeouts.silence, thread.wake());
    const auto own = sockets->open();
    if (!own) return tl::unexpected(thread.fail_run(own.error()));
    const auto all = thread.gather("Unix sockets of each host", *own);
    FORESHARD_TRY(all);
    if (auto connected = sockets->connect((*all)[e.rank - e.local_rank]); !connected)
      return tl::unexpected(thread.fail_run(connected.error()));
    sockets_ = std::move(sockets);
    return {};
  }

  std::unique_ptr<LocalSockets> sockets_;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Session>> Session::join(SessionOptions options) {
  FORESHARD_TRY(check(options));
  auto impl = std::make_unique<Impl>(std::move(options));
  FORESHARD_TRY(impl->thread.join());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::~Session() {
  if (impl_->thread.over()) return;
  [[maybe_unused]] const Error told = fail({ErrorKind::rank_lost, "left before the end", {}, {}});
}

const Environment& Session::environment() const {
  return impl_->environment();
}

Bootstrap& Session::bootstrap() {
  return *impl_;
}

void Session::report(std::string_view operation, Milliseconds timeout) {
  impl_->thread.last_operation().set(operation, timeout);
}

void Session::on_abort(std::function<void(const RunFailure&)> callback) {
  impl_->thread.on_abort(std::move(callback));
}

bool Session::aborted() const {
  return impl_->thread.aborted();
}

std::optional<RunFailure> Session::failure() const {
  return impl_->thread.failure();
}

std::string Session::unauthenticated() {
  return impl_->thread.unauthenticated();
}

Error Session::fail(const Error& error) {
  return impl_->thread.fail_run(error);
}

Result<void> Session::finish() {
  return impl_->thread.finish();
}

}  // namespace foreshard::gpu
