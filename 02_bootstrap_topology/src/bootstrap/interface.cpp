#include "bootstrap/address.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/suggest.hpp>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace rungs::bootstrap::detail {
namespace {

// How willingly an interface is taken when nobody chose: lower is better.
int reluctance(const Interface& entry) {
  if (entry.address.is_loopback()) return 3;
  for (const char* prefix : {"docker", "virbr", "veth", "br-"}) {
    if (entry.name.starts_with(prefix)) return 2;
  }
  return entry.address.is_link_local() ? 1 : 0;
}

// Within a kind IPv4 first: more networks route it.
bool better(const Interface& a, const Interface& b) {
  const auto key = [](const Interface& entry) {
    return std::pair(reluctance(entry), entry.address.family() == AF_INET6);
  };
  return key(a) < key(b);
}

std::string names_of(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& entry : all) {
    text += concat(text.empty() ? "" : ", ", entry.name, " (", entry.address.host(), ")");
  }
  return text.empty() ? "none" : text;
}

std::string suggestion(const std::string& name, const std::vector<Interface>& all) {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Interface& entry : all) names.push_back(entry.name);
  return did_you_mean(name, names);
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    RUNGS_THROW(kSystem, "list of network interfaces: ", std::generic_category().message(errno));
  }
  std::vector<Interface> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    all.push_back({entry->ifa_name, Address::of(entry->ifa_addr).with_port(0)});
  }
  ::freeifaddrs(list);
  return all;
}

Address choose_address(const std::string& interface_or_address, int family) {
  std::string wanted = interface_or_address;
  const char* said_by = "";
  if (wanted.empty()) {
    wanted = env::string("RUNGS_SOCKET_IFNAME", "");
    said_by = " (RUNGS_SOCKET_IFNAME)";
  }
  if (!wanted.empty()) {
    if (const std::optional<Address> numeric = Address::from_text(wanted, 0)) return *numeric;
  }
  const std::vector<Interface> all = interfaces();
  std::vector<Interface> fitting;
  for (const Interface& entry : all) {
    const bool right_family = family == AF_UNSPEC || entry.address.family() == family;
    if (right_family && (wanted.empty() || entry.name == wanted)) fitting.push_back(entry);
  }
  if (!wanted.empty() && fitting.empty()) {
    RUNGS_THROW(kInvalidArgument, "network interface '", wanted, "'", said_by,
                " is not there, is down or has no address", family == AF_INET6 ? " of IPv6" : "",
                family == AF_INET ? " of IPv4" : "", suggestion(wanted, all),
                "; there are: ", names_of(all));
  }
  RUNGS_REQUIRE(!fitting.empty(),
                "no network interface is up, not even loopback; there are: ", names_of(all));
  return std::min_element(fitting.begin(), fitting.end(), better)->address;
}

std::vector<Address> resolve(const std::string& name, std::uint16_t port, double seconds) {
  if (const std::optional<Address> numeric = Address::from_text(name, port)) return {*numeric};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const Deadline deadline = Deadline::after(std::chrono::duration<double>(seconds));
  int error = 0;
  // A name server that comes up with the job (a new pod's) says "again" at first.
  while ((error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found)) == EAI_AGAIN &&
         !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  // A minimal system without /etc/hosts does not know the name that always means loopback.
  if (error != 0 && name == "localhost") return {*Address::from_text("127.0.0.1", port)};
  if (error != 0) {
    RUNGS_THROW(kSystem, "host name '", name, "' cannot be resolved: ", ::gai_strerror(error),
                "; use a name that this machine knows or a numeric address");
  }
  std::vector<Address> result;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    result.push_back(Address::of(entry->ai_addr).with_port(port));
  }
  ::freeaddrinfo(found);
  return result;
}

}  // namespace rungs::bootstrap::detail
