// Sizes, rates and times as people write them: "80GiB", "400Gb/s", "12.5us".
//
// Used by the command line and by every table that is printed. Locale-free and exact: the text is parsed
// as a decimal fraction and scaled in integers, so "1.5GiB" is 1,610,612,736 and nothing else.
//
// Prefixes keep their meaning: KiB, MiB, GiB, TiB are powers of 1024; kB, MB, GB, TB are powers of 1000;
// a small b is bits ("400Gb/s" is 50,000,000,000 bytes a second). A bare number is the base unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

/// "512", "512B", "2MiB", "80GiB" ("80gib"), "1.5GB", "4Gb" (bits). Rounds half up to whole bytes.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);

/// Bytes a second: "400Gb/s", "50GB/s", "400Gbps", or a bare number of bytes a second.
[[nodiscard]] Result<double> parse_bandwidth(std::string_view text);

/// "12.5us", "3ms", "1s", "250ns", "2min"; µ and μ are accepted for u. A unit is needed, except for 0.
[[nodiscard]] Result<Nanoseconds> parse_time(std::string_view text);

/// A whole number that fits 32 bits, with nothing around it.
[[nodiscard]] Result<std::uint32_t> parse_count(std::string_view text);

/// For people: "80 GiB", "15.64 GiB", "512 B": the largest binary prefix that is not above the value, at
/// most two decimals.
[[nodiscard]] std::string format_bytes(Bytes bytes);
/// "80.00 GiB", "15.64 GiB", "512 B": the same with its zeros, so that sizes of one column have one precision.
[[nodiscard]] std::string format_bytes_fixed(Bytes bytes);
/// As format_bytes_fixed with a sign; "0 B" for none.
[[nodiscard]] std::string format_bytes_difference(std::int64_t bytes);
/// "50 GB/s": decimal prefixes, as links are sold.
[[nodiscard]] std::string format_bandwidth(double bytes_per_second);
/// "12.5 us", "3.21 ms", "1.2 s": at most three decimals.
[[nodiscard]] std::string format_time(Nanoseconds time);

}  // namespace foreshard
