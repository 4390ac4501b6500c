"""A headless Chromium, driven over the DevTools protocol."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Chromium:
    """Use it in a `with` statement. Not thread-safe."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()

        def place():
            # Above 4 first, so that no copy overwrites the other.
            high = os.dup2(commands, 100), os.dup2(answers, 101)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            ['chromium', '--headless=new', '--no-sandbox', '--disable-gpu',
             '--disable-dev-shm-usage', '--no-first-run',
             '--disable-background-networking', '--disable-component-update',
             '--remote-debugging-pipe', f'--user-data-dir={self.profile}',
             'about:blank'],
            pass_fds=(3, 4), preexec_fn=place, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, HOME=self.profile))
        os.close(commands)
        os.close(answers)
        self._buffer = b''
        self._next = 0
        self.events = []
        target = self.call('Target.createTarget', url='about:blank')
        self.session = None
        self.session = self.call('Target.attachToTarget', flatten=True,
                                 targetId=target['targetId'])['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(f'{domain}.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self.profile, ignore_errors=True)

    session = None

    def call(self, method, **parameters):
        self._next += 1
        message = {'id': self._next, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        os.write(self._to, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._read()
            if answer.get('id') == self._next:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']

    def _read(self):
        while b'\0' not in self._buffer:
            block = os.read(self._from, 1 << 20)
            if not block:
                raise RuntimeError('Chromium has ended')
            self._buffer += block
        text, self._buffer = self._buffer.split(b'\0', 1)
        message = json.loads(text)
        if 'id' not in message:
            self.events.append(message)
        return message

    def evaluate(self, expression):
        result = self.call('Runtime.evaluate', expression=expression,
                           awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in result:
            raise RuntimeError(json.dumps(result['exceptionDetails']))
        return result['result'].get('value')

    def wait_for(self, expression, seconds=30):
        """Waits until the expression is true, and returns its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)  # The page has nothing to wait on.
        raise TimeoutError(f'{expression} is not true after {seconds} s')

    def open(self, url, width=1280, height=1000, dark=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width,
                  height=height, deviceScaleFactor=1, mobile=False)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme',
             'value': 'dark' if dark else 'light'}])
        # A change of only the fragment would not load the page again.
        self.call('Page.navigate', url='about:blank')
        self.call('Page.navigate', url=url)

    def press(self, key):
        text = {'text': key} if len(key) == 1 else {}
        self.call('Input.dispatchKeyEvent', type='keyDown', key=key, **text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key)

    def screenshot(self, path, whole=False):
        """Writes what the window shows, or the whole page, without the empty
        space below the content."""
        width, window, content = self.evaluate(
            '[window.innerWidth, window.innerHeight, Math.ceil(document'
            '.getElementById("view").getBoundingClientRect().bottom)]')
        content += 16  # The margin of the page.
        height = content if whole else min(window, content)
        picture = self.call('Page.captureScreenshot', format='png',
                            captureBeyondViewport=whole,
                            clip={'x': 0, 'y': 0, 'width': width,
                                  'height': height, 'scale': 1})
        with open(path, 'wb') as file:
            file.write(base64.b64decode(picture['data']))

    def errors(self):
        """Errors of the console and of the network so far."""
        found = []
        for event in self.events:
            kind, detail = event['method'], event['params']
            if kind == 'Runtime.exceptionThrown':
                found.append(json.dumps(detail['exceptionDetails'])[:500])
            elif kind == 'Log.entryAdded' and detail['entry']['level'] == 'error':
                found.append(json.dumps(detail['entry'])[:500])
            elif kind == 'Runtime.consoleAPICalled' and detail['type'] == 'error':
                found.append(json.dumps(detail['args'])[:500])
        return found

    def requested(self):
        """The addresses that the page has asked for."""
        return [event['params']['request']['url'] for event in self.events
                if event['method'] == 'Network.requestWillBeSent']
