package sidecar

import (
	"log/slog"
	"net/http"
	"time"
)

func (s *Sidecar) newServer() *http.Server {
	longest := s.config.Limits.WaitMost + 30*time.Second // the read deadline would end a handler's context, too
	return &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: longest, WriteTimeout: longest,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, TLSConfig: s.config.TLS.Clone(),
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what scanners and broken clients leave behind
	}
}
