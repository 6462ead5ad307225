// Who came to the rendezvous without proving that they know the run's secret: how often, and from where. Used by the
// rendezvous server. Pure; bounded, however many come.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace foreshard::gpu {

class UnauthenticatedCount {
 public:
  static constexpr std::size_t kMaxAddresses = 64;

  void add(const std::string& address);
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// "3 connections did not prove that they know the run's secret: 2 from 10.0.0.7, 1 from 10.0.0.9"; the addresses
  /// that came most often first, at most four. Empty where nobody came.
  [[nodiscard]] std::string text() const;

 private:
  std::map<std::string, std::uint64_t> by_address_;
  std::uint64_t number_ = 0;
};

}  // namespace foreshard::gpu
