package sidecar

import (
	"log/slog"
	"net/http"
	"time"
)

// longest is how long a request may take that waits for no tool and no model.
func (s *Sidecar) longest() time.Duration { return s.config.Limits.WaitMost + 30*time.Second }

func (s *Sidecar) newServer() *http.Server {
	longest := s.longest() // the read deadline would end a handler's context, too
	return &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: longest, WriteTimeout: longest,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, TLSConfig: s.config.TLS.Clone(),
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what scanners and broken clients leave behind
	}
}
