// SPDX-License-Identifier: Apache-2.0
#include "tests/testkit/http/scripted_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

namespace space::testkit {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

struct ScriptedServer::Impl {
  asio::io_context loop;
  tcp::acceptor acceptor{loop, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
};

namespace {

class BeastSocket final : public Socket {
 public:
  explicit BeastSocket(tcp::socket socket) : stream_(std::move(socket)) {}
  void accept(const http::request<http::string_body>& request) {
    stream_.read_message_max(0);
    stream_.auto_fragment(false);
    stream_.accept(request);
  }
  std::optional<Frame> read() override {
    beast::flat_buffer buffer;
    boost::system::error_code error;
    stream_.read(buffer, error);
    if (error) return std::nullopt;
    return Frame{stream_.got_binary(), beast::buffers_to_string(buffer.data())};
  }
  void text(const std::string& data) override { send(data, false); }
  void binary(const std::string& data) override { send(data, true); }
  void close() override {
    boost::system::error_code ignored;
    stream_.close(beast::websocket::close_code::normal, ignored);
  }
  void cut() override {
    boost::system::error_code ignored;
    stream_.next_layer().shutdown(tcp::socket::shutdown_both, ignored);
  }

 private:
  void send(const std::string& data, bool binary) {
    boost::system::error_code ignored;  // the client may have gone: the script's next read says so
    stream_.binary(binary);
    stream_.write(asio::buffer(data), ignored);
  }
  beast::websocket::stream<tcp::socket> stream_;
};

std::string wire_form(const Answer& answer, bool head) {
  std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " Scripted\r\n";
  for (const auto& [name, value] : answer.headers) out += name + ": " + value + "\r\n";
  bool bodiless = answer.status == 204;
  if (answer.chunked) {
    out += "Transfer-Encoding: chunked\r\n\r\n";
  } else if (!bodiless) {
    bool given = std::any_of(answer.headers.begin(), answer.headers.end(),
                             [](auto& h) { return h.first == "Content-Length"; });
    out += given ? "\r\n" : "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n";
  } else {
    out += "\r\n";
  }
  if (head || bodiless) return out;
  std::string body = answer.body.substr(0, answer.cut_after);
  bool whole = body.size() == answer.body.size();
  if (!answer.chunked) return out + body;
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  if (!body.empty()) out += size + body + "\r\n";
  return whole ? out + "0\r\n\r\n" : out;
}

Asked asked_from(const http::request<http::string_body>& request) {
  Asked asked;
  asked.method = std::string(request.method_string());
  std::string target(request.target());
  auto mark = target.find('?');
  asked.path = target.substr(0, mark);
  if (mark != std::string::npos) asked.query = target.substr(mark + 1);
  for (const auto& field : request) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    asked.headers[name] = std::string(field.value());
  }
  asked.body = request.body();
  return asked;
}

}  // namespace

ScriptedServer::ScriptedServer() : impl_(std::make_unique<Impl>()), acceptor_([this] { accept_loop(); }) {}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  ::shutdown(impl_->acceptor.native_handle(), SHUT_RDWR);
  acceptor_.join();
  {
    std::lock_guard lock(mutex_);
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  for (auto& thread : threads_) thread.join();
}

void ScriptedServer::on(const std::string& method, const std::string& path, Handler handler) {
  std::lock_guard lock(mutex_);
  handlers_[method + " " + path] = std::move(handler);
}

void ScriptedServer::on_socket(const std::string& path, SocketHandler handler) {
  std::lock_guard lock(mutex_);
  socket_handlers_[path] = std::move(handler);
}

unsigned short ScriptedServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}
std::string ScriptedServer::url() const {
  return "http://127.0.0.1:" + std::to_string(port());
}

std::vector<Asked> ScriptedServer::asked() const {
  std::lock_guard lock(mutex_);
  return asked_;
}

void ScriptedServer::accept_loop() {
  while (!stopping_) {
    int fd = ::accept4(impl_->acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ++connections_;
    std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void ScriptedServer::serve(int fd) {
  asio::io_context loop;
  tcp::socket socket(loop, tcp::v4(), fd);
  auto forget = [&] {
    std::lock_guard lock(mutex_);
    std::erase(open_, fd);
  };
  beast::flat_buffer buffer;
  for (;;) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    boost::system::error_code error;
    http::read(socket, buffer, parser, error);
    if (error) break;
    Asked asked = asked_from(parser.get());
    Handler handler;
    SocketHandler socket_handler;
    {
      std::lock_guard lock(mutex_);
      asked_.push_back(asked);
      if (auto found = handlers_.find(asked.method + " " + asked.path); found != handlers_.end())
        handler = found->second;
      if (auto found = socket_handlers_.find(asked.path); found != socket_handlers_.end())
        socket_handler = found->second;
    }
    if (beast::websocket::is_upgrade(parser.get()) && socket_handler) {
      forget();  // the number lives on in the script's socket, which ends with its client
      BeastSocket upgraded(std::move(socket));
      upgraded.accept(parser.get());
      socket_handler(upgraded, asked);
      return;
    }
    Answer answer =
        handler
            ? handler(asked)
            : Answer{
                  404,
                  R"({"error":{"code":"not_found","reason":"test.no_script","message":"no script for this"}})",
                  {}};
    asio::write(socket, asio::buffer(wire_form(answer, asked.method == "HEAD")), error);
    if (error || answer.cut_after < answer.body.size()) break;
  }
  forget();
  ::shutdown(fd, SHUT_RDWR);
}

}  // namespace space::testkit
