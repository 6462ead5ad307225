// The sections of a machine profile: one reader each, in read_<section>.cpp.
//
// Used by profile.cpp alone, whose table says which sections there are and which may be absent. A reader gets the
// section's JSON and fills its part of the profile; what is wrong goes to ProfileReader::fail().
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/machine/profile.hpp"
#include "sim/machine/profile_reader.hpp"

namespace foreshard::sim {

using SectionReader = void (*)(ProfileReader& reader, const nlohmann::json& section, MachineProfile& out);

void read_gpu(ProfileReader& reader, const nlohmann::json& gpu, MachineProfile& out);
void read_host(ProfileReader& reader, const nlohmann::json& host, MachineProfile& out);
void read_latencies(ProfileReader& reader, const nlohmann::json& latencies, MachineProfile& out);
void read_driver_calls(ProfileReader& reader, const nlohmann::json& calls, MachineProfile& out);
void read_contention(ProfileReader& reader, const nlohmann::json& contention, MachineProfile& out);
void read_collectives(ProfileReader& reader, const nlohmann::json& tables, MachineProfile& out);
void read_links(ProfileReader& reader, const nlohmann::json& links, MachineProfile& out);
void read_nccl(ProfileReader& reader, const nlohmann::json& nccl, MachineProfile& out);
void read_network(ProfileReader& reader, const nlohmann::json& network, MachineProfile& out);
void read_rates(ProfileReader& reader, const nlohmann::json& rates, MachineProfile& out);
void read_compute(ProfileReader& reader, const nlohmann::json& compute, MachineProfile& out);
/// Part of read_compute().
void read_measured_kernels(ProfileReader& reader, const nlohmann::json& section, ComputeSpec& out);
void read_host_calls(ProfileReader& reader, const nlohmann::json& calls, MachineProfile& out);
/// "/measurements": before every other section, whose fitted_on name them.
void read_measurements(ProfileReader& reader, const nlohmann::json& section);
/// "/calibration", `calibrate`'s record: its inputs are what the name kOwnCalibration stands for. Never an error.
void read_own_calibration(ProfileReader& reader, const nlohmann::json& record);
void read_prediction(ProfileReader& reader, const nlohmann::json& section, MachineProfile& out);
void read_table_correction(ProfileReader& reader, const nlohmann::json& section, MachineProfile& out);
void read_valid_range(ProfileReader& reader, const nlohmann::json& valid_range, MachineProfile& out);

}  // namespace foreshard::sim
