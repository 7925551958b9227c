// SPDX-License-Identifier: Apache-2.0
#include "node/doctor/doctor.h"

namespace space::node::doctor {
int doctor_main(const std::vector<std::string>&) { return 0; }
}  // namespace space::node::doctor
