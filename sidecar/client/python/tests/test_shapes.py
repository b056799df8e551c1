"""The shapes are in step with the OpenAPI document that the sidecar serves."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

SCRIPT = Path(os.environ.get("HENCE_CLIENT_SOURCE", Path(__file__).parent.parent)) / "scripts" / "shapes.py"


class Shapes(unittest.TestCase):
    def check(self, document):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(document, f)
            f.flush()
            return subprocess.run([sys.executable, SCRIPT, f.name, "--check"], capture_output=True, text=True)

    def test_in_step(self):
        with urllib.request.urlopen(os.environ["HENCE_URL"] + "/v1/openapi.json") as answer:
            document = json.load(answer)
        self.assertEqual(self.check(document).returncode, 0)
        document["components"]["schemas"]["Begin"]["properties"]["more"] = {"type": "string"}
        self.assertIn("out of step", self.check(document).stderr)

    def test_they_import(self):
        from hence import _shapes
        self.assertIn("tx", _shapes.Decision.__annotations__)
        self.assertIn("class", _shapes.Receipt.__annotations__)


if __name__ == "__main__":
    unittest.main()
